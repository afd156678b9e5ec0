// Prints the progress of the checks on stderr: `waiting for etcd to be healthy: OK`. On a terminal
// each check has one line that is rewritten in place, with colours and a turning sign; otherwise
// there is a line for each change. With results on stdout, each check also has a line of JSON or a
// YAML document.
#pragma once

#include "common/health/run-health.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

class HealthLines final : public HealthReport {
 public:
  enum class Results { kNone, kJson, kYaml };
  HealthLines(Console& console, kj::Timer& timer, Results results)
      : console(console), timer(timer), results(results) {}

  void discovered(const ClusterNodes& nodes) override;
  void begin(kj::StringPtr check) override;
  void state(const CheckResult& result) override;
  void end() override;

  // Prints a separate line between the lines of the checks.
  void note(kj::StringPtr text);
  // Turns the sign until dropped.
  kj::Promise<void> turn();

 private:
  Console& console;
  kj::Timer& timer;
  Results results;
  kj::String check;
  CheckResult last = CheckResult::waiting(kj::String());
  bool open = false;  // a line of the terminal is being rewritten
  unsigned turns = 0;
  kj::TimePoint begun = kj::origin<kj::TimePoint>();

  void draw();
};

}  // namespace talos::talosctl
