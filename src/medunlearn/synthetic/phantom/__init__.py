"""Drawn chest phantoms: a three-dimensional body, rotated to any angle and projected to a radiograph.

A body consists of ellipsoids and tubes, so path lengths of rays are exact without voxels; a radiograph takes a few
milliseconds. The findings are those of the report.
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
