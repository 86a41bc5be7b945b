"""Why a model said what it said."""
