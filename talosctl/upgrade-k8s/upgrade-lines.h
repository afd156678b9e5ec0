// Prints a run of `upgrade-k8s`. stdout has the lines that the original prints, and nothing else;
// the plan of a dry run is on stdout too. stderr has everything more: workers, kubelets, objects of
// the manifests, and the reasons for waiting, each text once for each wait. With JSON, stdout has
// one line for each change that was made or has failed, and the other lines are on stderr.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

class UpgradeLines {
 public:
  UpgradeLines(Console& console, const kj::Clock& clock, bool json)
      : console(console), clock(clock), json(json) {}
  KJ_DISALLOW_COPY_AND_MOVE(UpgradeLines);

  void line(kj::StringPtr text);  // of the original, or of the plan
  // Several lines, each with its end.
  void text(kj::StringPtr lines);
  void note(kj::StringPtr text);
  void question(kj::StringPtr text);  // on stderr, without a line's end
  // `2021/03/09 19:55:01 retrying error: …`
  void retrying(kj::StringPtr text);
  // A line of the JSON. `node` empty: the whole cluster.
  void done(kj::StringPtr component, kj::StringPtr node, kj::StringPtr image, kj::StringPtr result,
            kj::StringPtr message = "");
  // The same of an object of the manifests.
  void object(kj::StringPtr name, kj::StringPtr result);

 private:
  Console& console;
  const kj::Clock& clock;
  bool json;
};

}  // namespace talos::talosctl
