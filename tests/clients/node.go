package clients

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"gopkg.in/yaml.v3"
)

// Patience is what a call takes at most.
const Patience = 30 * time.Second

type talosconfig struct {
	Context  string
	Contexts map[string]struct{ CA, Crt, Key string }
}

// Identity is what a client shows, and whom it believes.
type Identity struct {
	authority   *x509.CertPool
	certificate *tls.Certificate
}

// ReadIdentity takes the current context of a talosconfig.
func ReadIdentity(text []byte) (Identity, error) {
	var config talosconfig
	if err := yaml.Unmarshal(text, &config); err != nil {
		return Identity{}, err
	}
	entry, ok := config.Contexts[config.Context]
	if !ok {
		return Identity{}, fmt.Errorf("no context %q", config.Context)
	}
	var pem [3][]byte
	for i, value := range []string{entry.CA, entry.Crt, entry.Key} {
		decoded, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			return Identity{}, err
		}
		pem[i] = decoded
	}
	// Go's reader of keys knows them under this name.
	key := bytes.ReplaceAll(pem[2], []byte("ED25519 PRIVATE KEY"), []byte("PRIVATE KEY"))
	pair, err := tls.X509KeyPair(pem[1], key)
	if err != nil {
		return Identity{}, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem[0]) {
		return Identity{}, errors.New("the context has no CA")
	}
	return Identity{pool, &pair}, nil
}

// Dial connects as clients of 1.9 do: each node of a cluster on this host has an endpoint on loopback.
func Dial(endpoint, name string, identity Identity, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	config := &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}
	if identity.authority != nil {
		config.RootCAs = identity.authority
	} else {
		config.InsecureSkipVerify = true // a machine without a config has a self-signed certificate
	}
	if identity.certificate != nil {
		config.Certificates = []tls.Certificate{*identity.certificate}
	}
	options = append([]grpc.DialOption{
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(32 << 20)),
		grpc.WithInitialWindowSize(65535 * 32), grpc.WithInitialConnWindowSize(65535 * 16),
		grpc.WithSharedWriteBuffer(true)}, options...)
	if _, _, err := net.SplitHostPort(endpoint); err != nil {
		endpoint = net.JoinHostPort(endpoint, "50000")
	}
	return grpc.NewClient(endpoint, options...)
}

// To is the metadata of a call to several nodes, whose answers are merged.
func To(nodes ...string) context.Context {
	ctx := context.Background()
	for _, node := range nodes {
		ctx = metadata.AppendToOutgoingContext(ctx, "nodes", node)
	}
	return ctx
}

// ToOne is that of a call to one.
func ToOne(node string) context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), "node", node)
}

// Unary makes a call with one answer.
func Unary(ctx context.Context, conn *grpc.ClientConn, path string, request Request) (Message, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	var answer []byte
	if err := conn.Invoke(ctx, path, request, &answer); err != nil {
		return nil, err
	}
	return Parse(answer)
}

// Stream begins a call with many answers; the context ends it.
func Stream(ctx context.Context, conn *grpc.ClientConn, path string, request Request, options ...grpc.CallOption) (func() (Message, error), error) {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, path, options...)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(request); err != nil {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	return func() (Message, error) {
		var answer []byte
		if err := stream.RecvMsg(&answer); err != nil {
			return nil, err
		}
		return Parse(answer)
	}, nil
}

// All makes such a call and waits for its end.
func All(ctx context.Context, conn *grpc.ClientConn, path string, request Request) ([]Message, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	next, err := Stream(ctx, conn, path, request)
	if err != nil {
		return nil, err
	}
	var all []Message
	for {
		message, err := next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, message)
	}
}

// Talosctl runs the project's own client, and gives what it prints.
func Talosctl(arguments ...string) ([]byte, error) {
	command := exec.Command(os.Getenv("TALOSCTL"), append([]string{"--talosconfig", os.Getenv("TALOSCONFIG")}, arguments...)...)
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		return out, fmt.Errorf("%v: %w: %s", arguments, err, problems.String())
	}
	return out, nil
}

// TalosctlJSON runs it with -o json; of what it prints the last document counts, which is the node's.
func TalosctlJSON(into any, arguments ...string) error {
	out, err := Talosctl(append(arguments, "-o", "json")...)
	if err != nil {
		return err
	}
	for documents := json.NewDecoder(bytes.NewReader(out)); documents.More(); {
		if err := documents.Decode(into); err != nil {
			return err
		}
	}
	return nil
}
