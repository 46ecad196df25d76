package buckettest

import (
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
)

// Proxy forwards between a client and a server, and injects faults.
type Proxy struct {
	Endpoint string
	Server   *httptest.Server

	mu    sync.Mutex
	fault Fault
}

// Fault answers a request, or has the server answer it.
type Fault func(w http.ResponseWriter, r *http.Request, server http.Handler)

// NewProxy starts a proxy without faults, over TLS or not. It ends with the test.
func NewProxy(t testing.TB, s *Server, tls bool) *Proxy {
	t.Helper()
	target, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	// The signature of a request is over the host that the client knows.
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	p := &Proxy{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		fault := p.fault
		p.mu.Unlock()
		if fault == nil {
			forward.ServeHTTP(w, r)
			return
		}
		fault(w, r, forward)
	})
	if p.Server = httptest.NewUnstartedServer(handler); tls {
		p.Server.StartTLS()
	} else {
		p.Server.Start()
	}
	t.Cleanup(p.Server.Close)
	p.Endpoint = p.Server.URL
	return p
}

// Set makes requests from now on go wrong; nil ends that.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// Times makes the first n requests go wrong that match.
func Times(n int, match func(*http.Request) bool, f Fault) Fault {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		mu.Lock()
		now := n > 0 && match(r)
		if now {
			n--
		}
		mu.Unlock()
		if now {
			f(w, r, server)
			return
		}
		server.ServeHTTP(w, r)
	}
}

// Busy is a server that asks for patience.
func Busy(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte(`<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>` + SecretKey +
		`</Message></Error>`))
}

// Repeating is a server that answers with a status and with all that it was sent, among it the access key and the
// session token, and with the secret key too, where an S3 server has its code and message and the names of elements.
func Repeating(status int) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		said := SecretKey + " " + AccessKey + " " + fmt.Sprint(r.Header)
		w.Header().Set("Content-Type", "application/xml")
		w.Header().Set("Location", "http://"+AccessKey+":"+SecretKey+"@127.0.0.1:1/")
		w.WriteHeader(status)
		if status < 300 {
			_, _ = fmt.Fprintf(w, `<?xml version="1.0"?><%s>%s</%[1]s>`, SecretKey, html.EscapeString(said))
			return
		}
		_, _ = fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>%[1]s</Message><Key>%[1]s</Key>`+
			`<BucketName>%[1]s</BucketName><Resource>%[1]s</Resource><RequestId>%[1]s</RequestId></Error>`,
			html.EscapeString(said))
	}
}

// Garbage is a server that does not speak HTTP, and repeats the request.
func Garbage(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintf(connection, "%v\r\n\r\n", r.Header)
	_ = connection.Close()
}

// Gone is a server that closes connections without an answer.
func Gone(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// Lost has the server carry out the request, and loses the answer.
func Lost(_ http.ResponseWriter, r *http.Request, server http.Handler) {
	server.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// record has the server answer, and takes over its headers.
func record(w http.ResponseWriter, r *http.Request, server http.Handler) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, r)
	maps.Copy(w.Header(), answer.Header())
	return answer
}

// Cut ends a body in the middle.
func Cut(w http.ResponseWriter, r *http.Request, server http.Handler) {
	answer := record(w, r, server)
	w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
	panic(http.ErrAbortHandler)
}

// OtherETag answers with an ETag that no object has.
func OtherETag(w http.ResponseWriter, r *http.Request, server http.Handler) {
	answer := record(w, r, server)
	w.Header().Set("ETag", `"0123456789abcdef0123456789abcdef"`)
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// Reads matches what asks for an object or a part of it.
func Reads(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Query().Get("list-type") == ""
}

// Any matches all requests.
func Any(*http.Request) bool { return true }
