// `talosctl support`: one ZIP archive about some nodes, for the analysis of a problem.
//
//   summary.txt            the time, the version, the nodes that answered
//   errors.txt             parts that could not be fetched, with the error
//   <node>/…               node-report.h
//   <node>/console.log     of a node of a local cluster, even if it is down
//   <node>/local-config.yaml  the config with which it was created, without secrets
//   cluster/…              files of a local cluster
//
// The archive gets its name when it is complete and on the disk, and only its owner can read it. It
// replaces no file; if two are created at once, one of them fails.
#pragma once

#include "talosctl/report/capture.h"

namespace talos::talosctl {

struct BundledFile {
  kj::String name;  // name in the archive
  kj::String path;
  bool config = false;  // a machine config, whose secrets are redacted
};

struct BundledNode {
  kj::String node;    // as in --nodes
  kj::String folder;  // folder in the archive
};

struct Bundle {
  kj::Vector<BundledNode> nodes;
  kj::Vector<BundledFile> files;  // files of this host
  size_t atOnce = 0;              // limit of nodes called at the same time; 0: all
};

// Writes the archive, with progress on stderr. Throws if it cannot be written; a node that does not
// answer is a warning. Returns the number of nodes that answered.
kj::Promise<size_t> writeSupportBundle(Invocation& call, const Access& access, const Bundle& bundle,
                                       kj::StringPtr path);

}  // namespace talos::talosctl
