// Prints a run of `upgrade-cluster`. stdout: the plan of a dry run, or what became of each node, as
// a table; with JSON or YAML every event instead, one line or one document each. stderr: findings,
// the plan, and the progress of all nodes, on a terminal in place.
#pragma once

#include "common/kube/json.h"
#include "talosctl/cli/progress-lines.h"
#include "talosctl/upgrade-cluster/rolling-plan.h"

namespace talos::talosctl {

enum class EventFormat { kText, kJson, kYaml };

class RollingLines {
 public:
  RollingLines(Console& console, EventFormat format) : console(console), format(format) {}
  KJ_DISALLOW_COPY_AND_MOVE(RollingLines);

  void note(kj::StringPtr text);
  // Each once.
  void finding(const PreflightFinding& finding);
  void plan(const RollingPlan& plan, const TargetImage& target, bool dryRun);

  // The lines of these nodes begin below what was printed before.
  void begin(const ClusterSurvey& survey);
  void progress(kj::StringPtr node, kj::StringPtr text);

  // `result`: upgraded, unchanged, failed, left.
  void result(kj::StringPtr node, kj::StringPtr version, kj::StringPtr result,
              kj::StringPtr message = "");
  void end();                        // prints the results
  void failed(kj::StringPtr error);  // of the run as a whole; an event only

 private:
  struct Result {
    kj::String node, version, result, message;
  };
  Console& console;
  EventFormat format;
  kj::Vector<kj::String> found;
  kj::Vector<Result> results;
  kj::Array<kj::String> names;
  kj::Array<kj::String> texts;  // the newest of each
  kj::Maybe<kj::Own<Progress>> lines;

  void event(kube::Json event);
};

}  // namespace talos::talosctl
