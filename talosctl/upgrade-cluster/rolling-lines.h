// Prints a run of `upgrade-cluster`. stdout has the plan of a dry run, or the result of each node,
// as a table; with JSON or YAML it has every event instead, as a line or a document. stderr has
// findings, the plan, and the progress of all nodes, which is rewritten in place on a terminal.
#pragma once

#include "talosctl/cli/progress-lines.h"
#include "talosctl/rollout/rollout-lines.h"
#include "talosctl/upgrade-cluster/rolling-plan.h"

namespace talos::talosctl {

class RollingLines {
 public:
  RollingLines(Console& console, EventFormat format) : console(console), format(format) {}
  KJ_DISALLOW_COPY_AND_MOVE(RollingLines);

  void note(kj::StringPtr text);
  // Prints each finding once.
  void finding(const PreflightFinding& finding);
  void plan(const RollingPlan& plan, const TargetImage& target, bool dryRun);

  // Starts the lines of these nodes below the output so far.
  void begin(const ClusterSurvey& survey);
  void progress(kj::StringPtr node, kj::StringPtr text);

  // `result`: upgraded, unchanged, failed, left.
  void result(kj::StringPtr node, kj::StringPtr version, kj::StringPtr result,
              kj::StringPtr message = "");
  void end();                        // prints the results
  void failed(kj::StringPtr error);  // an event for the run as a whole

 private:
  struct Result {
    kj::String node, version, result, message;
  };
  Console& console;
  EventFormat format;
  kj::Vector<kj::String> found;
  kj::Vector<Result> results;
  kj::Array<kj::String> names;
  kj::Array<kj::String> texts;  // newest text of each node
  kj::Maybe<kj::Own<Progress>> lines;

  void event(kube::Json event);
};

}  // namespace talos::talosctl
