// Collects the state of a node as files: its logs, resources, events and config, without secrets.
//
// Secret values are not fetched (resources that only an administrator may read are listed without
// their contents), or redacted here before they are written (the machine config, by
// common/config/config-redact.h). A part that cannot be fetched is an error in the report and stops
// nothing.
#pragma once

#include <kj/function.h>

#include "talosctl/client/cluster-client.h"
#include "talosctl/report/capture.h"

namespace talos::talosctl {

// Receives the files of a report. begin() announces the next one, for progress.
class ReportSink {
 public:
  virtual ~ReportSink() noexcept(false) = default;
  virtual void begin(kj::StringPtr file) = 0;
  virtual void add(kj::StringPtr file, kj::ArrayPtr<const char> content) = 0;
  virtual void error(kj::StringPtr file, kj::StringPtr message) = 0;
};

// A client for the talosconfig and endpoints that `access` names.
kj::Own<Client> clientFor(Invocation& call, const Access& access);

// The ids of its logs. Rejects when the node does not answer within 10 s, or within --timeout if
// that is less.
kj::Promise<kj::Array<kj::String>> logsOf(Invocation& call, Client& client, kj::StringPtr node);

// Adds all parts, one after the other. Never rejects. False when the node does not answer at all.
kj::Promise<bool> reportNode(Invocation& call, const Access& access, kj::StringPtr node,
                             ReportSink& sink);

}  // namespace talos::talosctl
