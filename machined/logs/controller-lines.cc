#include "machined/logs/controller-lines.h"

#include <kj/vector.h>
#include <stdio.h>
#include <time.h>

#include "common/base/controller-log.h"
#include "common/base/lines.h"

namespace talos::machined {
namespace {

constexpr struct {
  kj::StringPtr daemon, controller;
} kControllersOfDaemons[] = {
    {"kubed"_kj, "k8s.ManifestApplyController"_kj},
    {"kubed"_kj, "k8s.KubeletStaticPodController"_kj},
    {"kubed"_kj, "k8s.NodeApplyController"_kj},
    {"etcd-supervisor"_kj, "v1alpha1.BootstrapStatusController"_kj},
};

kj::String lineAt(kj::StringPtr stamp, kj::StringPtr controller, kj::StringPtr message) {
  auto line = kj::str(stamp, "  ", controller, ": ", message);
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';  // keeps it one line
  }
  return line;
}

bool mayWriteLinesOf(kj::StringPtr daemon, kj::StringPtr controller) {
  for (auto& row : kControllersOfDaemons) {
    if (row.daemon == daemon && row.controller == controller) return true;
  }
  return false;
}

}  // namespace

kj::String controllerLogLine(kj::Date time, kj::StringPtr controller, kj::StringPtr message) {
  time_t seconds = (time - kj::UNIX_EPOCH) / kj::SECONDS;
  tm parts;
  gmtime_r(&seconds, &parts);
  char stamp[32];
  strftime(stamp, sizeof(stamp), "%Y/%m/%d %H:%M:%S", &parts);
  return lineAt(stamp, controller, message);
}

bool runsControllers(kj::StringPtr daemon) {
  for (auto& row : kControllersOfDaemons) {
    if (row.daemon == daemon) return true;
  }
  return false;
}

kj::String controllerLinesOf(kj::StringPtr daemon, kj::ArrayPtr<const char> lines) {
  kj::Vector<kj::String> found;
  for (auto line : Lines(lines)) {
    KJ_IF_MAYBE (one, readControllerLine(line)) {
      if (!mayWriteLinesOf(daemon, one->controller)) continue;
      found.add(kj::str(lineAt(one->time, one->controller, one->message), "\n"));
    }
  }
  return kj::strArray(found, "");
}

}  // namespace talos::machined
