// The CSI driver of the tests. A volume is a folder of the node that outlives its pods; an inline
// (ephemeral) one is a tmpfs of its pod. Driver and registrar are one program here:
//
//	csi-driver NAME CSI_SOCKET CSI_SOCKET_AT_THE_KUBELET REGISTRATION_SOCKET VOLUMES
//
// Every call that changes a mount is logged with its result.
package main

import (
	"context"
	"errors"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registrar tells the kubelet, which finds its socket in plugins_registry, where the driver's is.
type registrar struct {
	registration.UnimplementedRegistrationServer
	name, endpoint string
}

func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              r.name,
		Endpoint:          r.endpoint,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (r *registrar) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if status.PluginRegistered {
		log.Print("registered")
		return &registration.RegistrationStatusResponse{}, nil
	}
	log.Printf("the kubelet refuses the driver: %s", status.Error)
	return nil, errors.New("not registered: " + status.Error)
}

// listen replaces the socket of a process before, which nobody answers at.
func listen(path string) net.Listener {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		log.Fatal(err)
	}
	return listener
}

func logged(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, request)
	if call := filepath.Base(info.FullMethod); err != nil {
		log.Printf("%s: %v", call, err)
	} else if _, changes := changing[call]; changes {
		log.Printf("%s: ok", call)
	}
	return answer, err
}

func main() {
	log.SetFlags(0)
	log.SetOutput(os.Stdout)
	if len(os.Args) != 6 {
		log.Fatal("csi-driver NAME CSI_SOCKET CSI_SOCKET_AT_THE_KUBELET REGISTRATION_SOCKET VOLUMES")
	}
	name, socket, endpoint, registry, volumes := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	host, err := os.Hostname()
	if err != nil {
		log.Fatal(err)
	}

	server := grpc.NewServer(grpc.UnaryInterceptor(logged))
	d := &driver{name: name, node: host, volumes: volumes}
	csi.RegisterIdentityServer(server, d)
	csi.RegisterNodeServer(server, d)
	failed := make(chan error, 2)
	listener := listen(socket)
	go func() { failed <- server.Serve(listener) }()

	// After the driver's own socket: the kubelet dials it as soon as it sees this one.
	registrations := grpc.NewServer()
	registration.RegisterRegistrationServer(registrations, &registrar{name: name, endpoint: endpoint})
	announced := listen(registry)
	go func() { failed <- registrations.Serve(announced) }()

	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-ends:
		registrations.Stop() // removes its socket: the kubelet forgets the driver
		server.GracefulStop()
	case err := <-failed:
		log.Fatal(err)
	}
}
