// What is wrong with a node, as files: its logs, resources, events and config, without secrets.
//
// Secret values are not fetched (the resources that only an administrator may read are listed
// without their contents), or hidden here before they are written (the machine config, as
// common/config/config-redact.h does it). A part that cannot be had is an error of the report and
// stops nothing.
#pragma once

#include <kj/function.h>

#include "talosctl/client/cluster-client.h"
#include "talosctl/report/capture.h"

namespace talos::talosctl {

// What a file of a report is about, for progress; then the file itself.
class ReportSink {
 public:
  virtual ~ReportSink() noexcept(false) = default;
  virtual void begin(kj::StringPtr file) = 0;
  virtual void add(kj::StringPtr file, kj::ArrayPtr<const char> content) = 0;
  virtual void error(kj::StringPtr file, kj::StringPtr why) = 0;
};

// Connects to nodes: of the talosconfig that `access` names.
kj::Own<Client> clientFor(Invocation& call, const Access& access);

// The ids of its logs; rejects, saying why, when the node does not answer within 10 s, or within
// --timeout if that is less.
kj::Promise<kj::Array<kj::String>> logsOf(Invocation& call, Client& client, kj::StringPtr node);

// All of it, part by part. Never rejects. False when the node does not answer at all.
kj::Promise<bool> reportNode(Invocation& call, const Access& access, kj::StringPtr node,
                             ReportSink& sink);

}  // namespace talos::talosctl
