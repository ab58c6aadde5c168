"""Steps: generators that describe how background jobs and requests wait, and the runner that executes them."""
