package bucket

import (
	"cmp"
	"crypto/x509"
	"net/url"
	"path"
	"strings"

	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/chtc/gpureports/pkg/pool"
)

// Options say which bucket to open, and how.
type Options struct {
	URL       string // s3://bucket/prefix; the prefix may be missing
	Endpoint  string // the server's URL, such as https://s3.example.com; "" means Amazon's
	Region    string // "" asks Amazon for the bucket's region, and means us-east-1 on any other server
	PathStyle bool   // the bucket is part of the path, not of the host name
	CA        string // PEM certificates of CAs to trust in addition to the system's

	// AccessKey and SecretKey are the keys to the bucket. If both are "", the keys come from the environment
	// (AWS_ACCESS_KEY_ID …), the user's AWS configuration, or the machine that this runs on.
	AccessKey string
	SecretKey string

	// Organization is Grafana's whose data source asks. Requests do not depend on it, but nothing that is kept of a bucket
	// is for others.
	Organization string
}

// place is where a bucket is.
type place struct {
	bucket, prefix string // the prefix is "" or ends with a slash
	endpoint       *url.URL
	roots          *x509.CertPool // nil = the system's
}

// Check reports faults in the options that can be found without a request to the server, as a pool.BadQuery.
func (o Options) Check() error {
	_, err := o.place()
	return err
}

// Name returns the URL in its canonical form, without a trailing slash.
func (o Options) Name() string {
	p, err := o.place()
	if err != nil {
		return o.URL
	}
	return p.name()
}

// OwnKeys reports whether the options have keys. Otherwise the process's keys are used.
func (o Options) OwnKeys() bool { return o.AccessKey != "" || o.SecretKey != "" }

func (p place) name() string { return strings.TrimSuffix("s3://"+p.bucket+"/"+p.prefix, "/") }

func (o Options) place() (place, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "s3" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Port() != "" {
		return place{}, pool.BadQuery("the bucket must be written as s3://bucket/prefix")
	}
	if err := s3utils.CheckValidBucketNameStrict(u.Host); err != nil {
		return place{}, pool.BadQuery("%q is not a bucket: write s3://bucket/prefix", u.Host)
	}
	p := place{bucket: u.Host}
	if inside := strings.Trim(u.Path, "/"); inside != "" {
		if path.Clean(inside) != inside || strings.HasPrefix(inside, "..") {
			return place{}, pool.BadQuery("the prefix %q of the bucket has an empty part, or . or ..", inside)
		}
		p.prefix = inside + "/"
	}
	if p.endpoint, err = o.endpoint(); err != nil {
		return place{}, err
	}
	if o.OwnKeys() && (o.AccessKey == "" || o.SecretKey == "") {
		return place{}, pool.BadQuery("one of the bucket's two keys is missing: set the access key and the secret key, " +
			"or neither to use those of the environment")
	}
	if strings.TrimSpace(o.CA) != "" {
		if p.roots, err = x509.SystemCertPool(); err != nil {
			p.roots = x509.NewCertPool()
		}
		if !p.roots.AppendCertsFromPEM([]byte(o.CA)) {
			return place{}, pool.BadQuery("the CA of the bucket contains no certificate in PEM format")
		}
	}
	return p, nil
}

// endpoint returns the server: Amazon's unless another is named.
func (o Options) endpoint() (*url.URL, error) {
	u, err := url.Parse(cmp.Or(o.Endpoint, "https://s3.amazonaws.com"))
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" ||
		u.User != nil || u.RawQuery != "" {
		return nil, pool.BadQuery("the endpoint of the bucket must be written as https://host or http://host:port")
	}
	return u, nil
}
