"""ROS 2 bags as tables, without ROS."""
