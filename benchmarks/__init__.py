"""The cost of Workbench, measured against a reference in the same run. Never a test: figures depend on the machine."""
