"""From the evaluated epochs of LUME runs to the differences that its findings are decided by."""
