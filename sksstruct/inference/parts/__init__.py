"""Parts on a grid."""
