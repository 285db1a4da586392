"""Why a kernel is wrong: failing cases executed again with edits to the kernel, and the edits that mend it, in words."""
