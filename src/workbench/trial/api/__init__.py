"""What training code touches: ``trial`` and what it gives."""
