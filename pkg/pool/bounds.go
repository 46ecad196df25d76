package pool

// Bounds of what others write: users into jobs, programs into files, servers into answers. What exceeds one is an error
// or a notice, before it takes memory. They are bytes unless their comment says otherwise. docs/reliability.md lists
// them for administrators, with those that depend on settings.
const (
	// MostText is how much is kept of a text that users write into jobs, such as a project or a job's id.
	MostText = 1 << 10
	// MostGPUs, MostGPUMemory (MiB of a GPU) and MostAmount (CPUs, or MiB of memory) are the largest requests of a job:
	// more is a mistake. Rows that request more GPUs are left out.
	MostGPUs      = 10_000
	MostGPUMemory = 10 << 20
	MostAmount    = 1 << 40

	// MostList bounds a list file; the longest known one has a hundred lines.
	MostList = 4 << 20
	// MostDeviceNames is the most names of devices in a list, because each answer carries them.
	MostDeviceNames = 1000

	// MostAd bounds an ad in a job file, and an ad or a line that is imported.
	MostAd = 64 << 20
	// MostPageAds is how many ads of a job file a page has, and MostPage after how many bytes it has no more.
	MostPageAds = 1000
	MostPage    = 2 << 20

	// MostOutput bounds what condor_status may print: about 300,000 slots.
	MostOutput = 256 << 20

	// MostObject bounds an object of a bucket that is read whole, MostAnswer other answers, MostObjects a listing.
	MostObject  = 128 << 20
	MostAnswer  = 16 << 20
	MostObjects = 1_000_000
	// MostHits bounds an answer of Elasticsearch, and MostComplaint how much of its error is read.
	MostHits      = 64 << 20
	MostComplaint = 64 << 10
	// MostPools and MostGroups are the most pools of an alias, and groups of an answer, of published facts.
	MostPools  = 10_000
	MostGroups = 2_000_000

	// MostFooter bounds the footer of a Parquet file (10,000 GPUs every five minutes: 2 MB), MostFooterList its lists.
	MostFooter     = 32 << 20
	MostFooterList = 1 << 15
	// MostGroupRows is the most rows of a row group: 10,000 GPUs every minute make 450,000,000 per month.
	MostGroupRows = 1 << 29
	// MostPageBytes and MostPageValues bound the pages of a column's chunk, unpacked, and MostChanges the changes of the
	// timestamp in a file. A file may have more for each of its bytes: MostPerByte, and one change.
	MostPageBytes  = 32 << 20
	MostPageValues = 1 << 20
	MostChanges    = 1 << 20
	MostPerByte    = 64
	// LeastReading is what the rows of a day may take, however small the budget: it suits 10,000 GPUs every five minutes.
	LeastReading = 128 << 20

	// MostBody bounds what a file of the cache is unpacked into.
	MostBody = 1 << 30
)
