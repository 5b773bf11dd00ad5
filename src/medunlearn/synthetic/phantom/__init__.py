"""Drawn chest phantoms: a body in three dimensions, turned to any angle and projected to a radiograph.

A body is made of ellipsoids and tubes, so that the way of a ray through each part is known exactly and no grid of
voxels is needed; a radiograph takes a few milliseconds. Findings are those that a report tells.
"""

from medunlearn.synthetic.phantom.anatomy import Anatomy, invent_anatomy
from medunlearn.synthetic.phantom.body import Body, Exposure, Pose, invent_pose
from medunlearn.synthetic.phantom.radiograph import heart_width, project, radiograph

__all__ = [
    "Anatomy",
    "Body",
    "Exposure",
    "Pose",
    "heart_width",
    "invent_anatomy",
    "invent_pose",
    "project",
    "radiograph",
]
