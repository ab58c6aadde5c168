"""Programs that show what CometMQ does; each folder is one."""
