"""What stands beside the engines of a bundle: scripts, containers and monitoring, rendered from `templates/deploy`."""
