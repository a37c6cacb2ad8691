"""Energy of passes and steps from bytes, MACs and powers; it knows no voltage, leakage or temperature."""

from __future__ import annotations

from typing import Any

import numpy as np

Quantity = Any


def dram_energy_j(*, bytes_moved: Quantity, device_energy_per_byte_j: Quantity,
                  phy_energy_per_byte_j: Quantity) -> Quantity:  # fmt: skip
    """Energy of memory traffic: the DRAM device and the PHY, controller and fabric on the chip.

    ``E = bytes (e_dram + e_phy)``

    Parameters
    ----------
    bytes_moved : float or array
        Bytes [B].
    device_energy_per_byte_j, phy_energy_per_byte_j : float or array
        Energy per byte [J/B].
    """
    return bytes_moved * (device_energy_per_byte_j + phy_energy_per_byte_j)


def engine_energy_j(*, mac_energy_j: Quantity, active_power_w: Quantity, active_s: Quantity,
                    idle_power_w: Quantity = 0.0, idle_s: Quantity = 0.0) -> Quantity:  # fmt: skip
    """Energy of the engine's rail: arithmetic, plus its power while a pass runs and while it waits.

    ``E = sum MACs e_mac + P_active t_active + P_idle t_idle``

    Parameters
    ----------
    mac_energy_j : float or array
        Energy of the multiply-accumulates [J].
    active_power_w, idle_power_w : float or array
        Power of the rail while a pass runs, without the MACs, and between passes [W].
    active_s, idle_s : float or array
        Times [s].
    """
    return mac_energy_j + active_power_w * active_s + idle_power_w * idle_s


def max_power_w(
    *,
    bandwidth_bytes_per_s: Quantity,
    energy_per_byte_j: Quantity,
    macs_per_s: Quantity,
    energy_per_mac_j: Quantity,
    engine_active_power_w: Quantity,
    host_power_w: Quantity,
    base_power_w: Quantity,
) -> Quantity:
    """Power with the bus, the engine and the host all busy at once; no average can exceed it.

    Parameters
    ----------
    bandwidth_bytes_per_s, macs_per_s : float or array
        Highest rates [B/s], [MAC/s].
    energy_per_byte_j, energy_per_mac_j : float or array
        Energy of a byte (device and PHY) and of a MAC [J].
    engine_active_power_w, host_power_w, base_power_w : float or array
        Powers of the rails [W].
    """
    return (
        bandwidth_bytes_per_s * energy_per_byte_j
        + macs_per_s * energy_per_mac_j
        + engine_active_power_w
        + host_power_w
        + base_power_w
    )


def rejected_energy_j(
    *,
    draft_energy_j: Quantity,
    verify_energy_j: Quantity,
    verify_energy_at_width_one_j: Quantity,
    proposed: Quantity,
    accepted: Quantity,
) -> Quantity:
    """Energy that rejected drafts cost: their draft passes and their share of what widening verify added.

    ``E_rejected = (E_draft + E_verify(K+1) - E_verify(1)) (K - a) / K``

    Parameters
    ----------
    draft_energy_j : float or array
        All draft passes of the step or of the group of steps [J].
    verify_energy_j, verify_energy_at_width_one_j : float or array
        Verify as run, and plain passes over the same contexts [J].
    proposed, accepted : float or array
        Drafts ``K`` and ``a``; nothing is rejected where nothing was proposed.

    Returns
    -------
    float or array
        Energy [J], never negative.
    """
    growth = np.maximum(verify_energy_j - verify_energy_at_width_one_j, 0.0)
    return (draft_energy_j + growth) * (proposed - accepted) / np.maximum(proposed, 1.0)
