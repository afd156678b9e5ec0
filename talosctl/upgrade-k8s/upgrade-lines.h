// Prints a run of `upgrade-k8s`. stdout has only the lines that the original prints, and the plan
// of a dry run. stderr has everything else: workers, kubelets, objects of the manifests, and the
// reasons for waiting, each once per wait. With JSON, stdout has a line for each change that was
// made or has failed, and all other lines are on stderr.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

class UpgradeLines {
 public:
  UpgradeLines(Console& console, const kj::Clock& clock, bool json)
      : console(console), clock(clock), json(json) {}
  KJ_DISALLOW_COPY_AND_MOVE(UpgradeLines);

  void line(kj::StringPtr text);  // prints a line of the original, or of the plan
  // Prints several lines, each with its line end.
  void text(kj::StringPtr lines);
  void note(kj::StringPtr text);
  void question(kj::StringPtr text);  // prints on stderr, without a line end
  // prints `2021/03/09 19:55:01 retrying error: …`
  void retrying(kj::StringPtr text);
  // Prints a line of the JSON. `node` empty: the whole cluster.
  void done(kj::StringPtr component, kj::StringPtr node, kj::StringPtr image, kj::StringPtr result,
            kj::StringPtr message = "");
  // Prints the same for an object of the manifests.
  void object(kj::StringPtr name, kj::StringPtr result);

 private:
  Console& console;
  const kj::Clock& clock;
  bool json;
};

}  // namespace talos::talosctl
