// `talosctl support`: one ZIP archive about some nodes, for whoever looks into a problem.
//
//   summary.txt            the time, the version, which nodes answered
//   errors.txt             what could not be fetched, with the error
//   <node>/…               node-report.h
//   <node>/console.log     of a node of a local cluster, also of one that is down
//   <node>/local-config.yaml  the config that it was created with, without secrets
//   cluster/…              files of a local cluster
//
// The archive gets its name when it is complete and on the disk, and
// only its owner can read it. It replaces nothing; of two that are made at once, one fails.
#pragma once

#include "talosctl/report/capture.h"

namespace talos::talosctl {

struct BundledFile {
  kj::String name;  // in the archive
  kj::String path;
  bool config = false;  // a machine config: its secrets are redacted
};

struct BundledNode {
  kj::String node;    // as in --nodes
  kj::String folder;  // in the archive
};

struct Bundle {
  kj::Vector<BundledNode> nodes;
  kj::Vector<BundledFile> files;  // of this host
  size_t atOnce = 0;              // nodes that are asked at the same time; 0: all
};

// Writes the archive, with progress on stderr. Throws when it cannot be written; a node that does
// not answer is a warning. Returns how many nodes answered.
kj::Promise<size_t> writeSupportBundle(Invocation& call, const Access& access, const Bundle& bundle,
                                       kj::StringPtr path);

}  // namespace talos::talosctl
