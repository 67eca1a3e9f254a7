"""Custom resources: CustomResourceDefinitions, and the objects that they define."""
