"""Oracles on trees and forests."""
