// Prints a cordon, uncordon or drain in kubectl's words. stdout has the result of each node, or
// with JSON a line for every event. stderr has pods, warnings and failures; on a terminal the pods
// of a node share one line, which is rewritten in place.
#pragma once

#include "common/kube/json.h"
#include "talosctl/cli/progress-lines.h"

namespace talos::talosctl {

class DrainLines {
 public:
  DrainLines(Console& console, bool json, bool dryRun)
      : console(console), json(json), dryRun(dryRun) {}
  KJ_DISALLOW_COPY_AND_MOVE(DrainLines);

  // Prints "node/w-1 cordoned". `result` as in JSON: cordoned, already cordoned, uncordoned,
  // already uncordoned, drained.
  void node(kj::StringPtr node, kj::StringPtr result);
  void failed(kj::StringPtr node, kj::StringPtr error);
  // Prints "Warning: ignoring DaemonSet-managed Pods: a/b, c/d".
  void warning(kj::StringPtr node, kj::StringPtr text, kj::ArrayPtr<const kj::String> pods);

  // Prints the state of a pod. `line`: text for a pipe, or empty. `result` as in JSON: evicting,
  // refused, terminating, evicted, deleted, failed.
  void pod(kj::StringPtr node, kj::StringPtr pod, kj::StringPtr result, kj::StringPtr line,
           kube::Json more = kube::Json::object());
  // Shows the progress of the whole node on a terminal.
  void progress(kj::StringPtr node, kj::StringPtr text);

 private:
  Console& console;
  bool json, dryRun;
  kj::Array<kj::String> names;  // pods of the node that is drained
  kj::Maybe<kj::Own<Progress>> live;

  void note(kj::StringPtr text);
  void event(kj::StringPtr kind, kj::StringPtr node, kube::Json more);
};

}  // namespace talos::talosctl
