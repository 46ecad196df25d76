package frames

// PointDistance is for tests.
var PointDistance = pointDistance

// Shipped returns the dashboard that the names of a column lead to.
func Shipped() map[string]string {
	uids := map[string]string{}
	for column, to := range shipped {
		uids[column] = to.dashboard
	}
	return uids
}
