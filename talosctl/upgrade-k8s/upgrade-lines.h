// What a run of `upgrade-k8s` prints. The lines of the original are on stdout, what it waits for on
// stderr, each text once for what is waited for. With JSON, stdout has one line for each thing that
// was done or failed, and the other lines are on stderr.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

class UpgradeLines {
 public:
  UpgradeLines(Console& console, const kj::Clock& clock, bool json)
      : console(console), clock(clock), json(json) {}
  KJ_DISALLOW_COPY_AND_MOVE(UpgradeLines);

  void line(kj::StringPtr text);
  void note(kj::StringPtr text);
  // `2021/03/09 19:55:01 retrying error: …`
  void retrying(kj::StringPtr text);
  // Of the JSON. `node` empty: of the whole cluster.
  void done(kj::StringPtr component, kj::StringPtr node, kj::StringPtr image, kj::StringPtr result,
            kj::StringPtr message = "");

 private:
  Console& console;
  const kj::Clock& clock;
  bool json;
};

}  // namespace talos::talosctl
