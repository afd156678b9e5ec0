// Collects the state of a node as files: its logs, resources, events and config, without secrets.
//
// Secret values are not fetched (resources that only an administrator may read are listed without
// their contents), or are redacted here before they are written (the machine config, by
// common/config/config-redact.h). A part that cannot be fetched is an error in the report and stops
// nothing.
#pragma once

#include <kj/function.h>

#include "talosctl/archive/zip-writer.h"
#include "talosctl/cli/progress-lines.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/report/capture.h"

namespace talos::talosctl {

// The archive of a report, which several nodes fill at once.
struct ReportArchive {
  ZipWriter& zip;
  Progress& progress;
  kj::Vector<kj::String> errors;  // errors of parts that could not be fetched
  size_t answered = 0;            // number of nodes
};

// The folder of one node in an archive.
class NodeFolder {
 public:
  NodeFolder(ReportArchive& archive, size_t index, kj::StringPtr name)
      : archive(archive), index(index), name(name) {}
  // Shows that this file comes next. Files of one subfolder are one step of the progress.
  void begin(kj::StringPtr file);
  void add(kj::StringPtr file, kj::ArrayPtr<const char> content);
  void error(kj::StringPtr file, kj::StringPtr message);
  size_t files() const { return added; }

 private:
  ReportArchive& archive;
  size_t index;
  kj::StringPtr name;
  size_t added = 0;
};

// Returns a client for the talosconfig and endpoints of `access`.
kj::Own<Client> clientFor(Invocation& call, const Access& access);

// Returns the ids of the node's logs. Rejects if the node does not answer within 10 s, or within
// --timeout if that is less.
kj::Promise<kj::Array<kj::String>> logsOf(Invocation& call, Client& client, kj::StringPtr node);

// Adds all parts, one after the other. Never rejects. Resolves to false if the node does not answer
// at all.
kj::Promise<bool> reportNode(Invocation& call, const Access& access, kj::StringPtr node,
                             NodeFolder& folder);

}  // namespace talos::talosctl
