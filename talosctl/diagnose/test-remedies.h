// Observations that show a fault, the cause that is named, and its remedy.
#pragma once

#include <string>
#include <vector>

#include "talosctl/diagnose/test-observations.h"

namespace talos::talosctl {

struct RemedyCase {
  std::string check, evidence;  // name of the check; observations in YAML
  std::string cause, remedy;    // parts of the texts
};
std::vector<RemedyCase> etcdRemedies();
std::vector<RemedyCase> kubernetesRemedies();

}  // namespace talos::talosctl
