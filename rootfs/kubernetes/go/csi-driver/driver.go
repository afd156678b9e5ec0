package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var changing = map[string]struct{}{
	"NodeStageVolume": {}, "NodeUnstageVolume": {}, "NodePublishVolume": {}, "NodeUnpublishVolume": {},
}

type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	name, node, volumes string
}

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "1"}, nil
}

func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	var all []*csi.NodeServiceCapability
	for _, kind := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
	} {
		all = append(all, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{
			Rpc: &csi.NodeServiceCapability_RPC{Type: kind}}})
	}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: all}, nil
}

// folder is that of a volume; its identifier is one part of a path.
func (d *driver) folder(volume string) (string, error) {
	if volume == "" || volume == "." || volume == ".." || strings.ContainsRune(volume, '/') {
		return "", status.Errorf(codes.InvalidArgument, "%q is no volume", volume)
	}
	return filepath.Join(d.volumes, volume), nil
}

func internal(action, path string, err error) error {
	return status.Errorf(codes.Internal, "%s %s: %v", action, path, err)
}

// isMounted of a folder: its parent is on another mount, or it is the root of one.
func isMounted(path string) (bool, error) {
	var info unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &info); err != nil {
		return false, err
	}
	if info.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return false, errors.New("the kernel does not say whether it is mounted")
	}
	return info.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// mountOnce mounts unless that is done; the calls of CSI may come again.
func mountOnce(source, target, kind string, flags uintptr, data string) error {
	if err := os.MkdirAll(target, 0o750); err != nil {
		return internal("create", target, err)
	}
	if mounted, err := isMounted(target); err != nil {
		return internal("look at", target, err)
	} else if mounted {
		return nil
	}
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return internal("mount "+source+" at", target, err)
	}
	return nil
}

// unmountOnce leaves the folder there or removes it.
func unmountOnce(target string, remove bool) error {
	mounted, err := isMounted(target)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return internal("look at", target, err)
	}
	if mounted {
		if err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW); err != nil {
			return internal("unmount", target, err)
		}
	}
	if !remove {
		return nil
	}
	if err := os.Remove(target); err != nil {
		return internal("remove", target, err)
	}
	return nil
}

func (d *driver) NodeStageVolume(_ context.Context, request *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	source, err := d.folder(request.VolumeId)
	if err != nil {
		return nil, err
	}
	if request.StagingTargetPath == "" || request.VolumeCapability.GetMount() == nil {
		return nil, status.Error(codes.InvalidArgument, "a folder to stage at and a mounted volume are wanted")
	}
	if err := os.MkdirAll(source, 0o770); err != nil {
		return nil, internal("create", source, err)
	}
	return &csi.NodeStageVolumeResponse{}, mountOnce(source, request.StagingTargetPath, "", unix.MS_BIND, "")
}

func (d *driver) NodeUnstageVolume(_ context.Context, request *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if request.StagingTargetPath == "" {
		return nil, status.Error(codes.InvalidArgument, "staged where?")
	}
	return &csi.NodeUnstageVolumeResponse{}, unmountOnce(request.StagingTargetPath, false)
}

func (d *driver) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if request.TargetPath == "" || request.VolumeCapability.GetMount() == nil {
		return nil, status.Error(codes.InvalidArgument, "a folder to publish at and a mounted volume are wanted")
	}
	answer := &csi.NodePublishVolumeResponse{}
	if request.VolumeContext["csi.storage.k8s.io/ephemeral"] == "true" {
		size := request.VolumeContext["size"]
		if size == "" || strings.ContainsRune(size, ',') {
			return nil, status.Errorf(codes.InvalidArgument, "%q is no size", size)
		}
		return answer, mountOnce("tmpfs", request.TargetPath, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size="+size+",mode=0770")
	}
	staged := request.StagingTargetPath
	if mounted, err := isMounted(staged); err != nil || !mounted {
		return nil, status.Errorf(codes.FailedPrecondition, "%s: not staged (%v)", staged, err)
	}
	return answer, mountOnce(staged, request.TargetPath, "", unix.MS_BIND, "")
}

func (d *driver) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if request.TargetPath == "" {
		return nil, status.Error(codes.InvalidArgument, "published where?")
	}
	return &csi.NodeUnpublishVolumeResponse{}, unmountOnce(request.TargetPath, true)
}

func (d *driver) NodeGetVolumeStats(_ context.Context, request *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if mounted, err := isMounted(request.VolumePath); err != nil || !mounted {
		return nil, status.Errorf(codes.NotFound, "%s: not published (%v)", request.VolumePath, err)
	}
	var info unix.Statfs_t
	if err := unix.Statfs(request.VolumePath, &info); err != nil {
		return nil, internal("statfs", request.VolumePath, err)
	}
	block := info.Bsize
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: int64(info.Blocks) * block, Available: int64(info.Bavail) * block,
			Used: int64(info.Blocks-info.Bfree) * block},
		{Unit: csi.VolumeUsage_INODES, Total: int64(info.Files), Available: int64(info.Ffree),
			Used: int64(info.Files - info.Ffree)},
	}}, nil
}
