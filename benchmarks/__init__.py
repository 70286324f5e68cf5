"""What Workbench costs, measured beside a reference in the same run. Never a test: figures depend on the machine."""
