"""Steps: how background jobs and requests wait, and the runner that executes them."""
