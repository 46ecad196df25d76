package frames

// PointDistance is for tests.
var PointDistance = pointDistance
