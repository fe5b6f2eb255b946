"""From a plan to a changed cluster: agreed to, leased, carried out, told, and led back."""
