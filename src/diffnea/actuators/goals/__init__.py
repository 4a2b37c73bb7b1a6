"""Position goals: how fast they become what a loop follows, and the torque that the loop answers with."""
