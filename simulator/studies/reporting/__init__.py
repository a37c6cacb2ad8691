"""What a report needs beside the comparison: designs, costs of passes, token strips, sources, sentences."""
