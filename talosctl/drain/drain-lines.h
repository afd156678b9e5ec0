// Prints a cordon, uncordon or drain in kubectl's words. stdout: what became of each node; with
// JSON every event instead, a line each. stderr: pods, warnings and failures; on a terminal the
// pods of a node are one line, which is rewritten in place.
#pragma once

#include "common/kube/json.h"
#include "talosctl/cli/progress-lines.h"

namespace talos::talosctl {

class DrainLines {
 public:
  DrainLines(Console& console, bool json, bool dryRun)
      : console(console), json(json), dryRun(dryRun) {}
  KJ_DISALLOW_COPY_AND_MOVE(DrainLines);

  // "node/w-1 cordoned". `result` as in JSON: cordoned, already cordoned, uncordoned, already
  // uncordoned, drained.
  void node(kj::StringPtr node, kj::StringPtr result);
  void failed(kj::StringPtr node, kj::StringPtr error);
  // "Warning: ignoring DaemonSet-managed Pods: a/b, c/d"
  void warning(kj::StringPtr node, kj::StringPtr text, kj::ArrayPtr<const kj::String> pods);

  // The state of a pod. `line`: in a pipe; empty: none. `result` as in JSON: evicting, refused,
  // terminating, evicted, deleted, failed.
  void pod(kj::StringPtr node, kj::StringPtr pod, kj::StringPtr result, kj::StringPtr line,
           kube::Json more = kube::Json::object());
  // The progress of the whole node, on a terminal.
  void progress(kj::StringPtr node, kj::StringPtr text);

 private:
  Console& console;
  bool json, dryRun;
  kj::Array<kj::String> names;  // of the node that is drained
  kj::Maybe<kj::Own<Progress>> live;

  void note(kj::StringPtr text);
  void event(kj::StringPtr kind, kj::StringPtr node, kube::Json more);
};

}  // namespace talos::talosctl
