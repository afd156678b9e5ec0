#include "talosctl/upgrade-cluster/rolling-lines.h"

#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/table.h"

namespace talos::talosctl {
namespace {

kj::StringPtr nameOf(NodeAction action) {
  switch (action) {
    case NodeAction::kNone:
      return "unchanged"_kj;
    case NodeAction::kFollow:
      return "follow"_kj;
    case NodeAction::kUpgrade:
      return "upgrade"_kj;
  }
  KJ_UNREACHABLE;
}

}  // namespace

void RollingLines::event(kube::Json event) {
  if (format != EventFormat::kText) console.out(renderEvent(event, format));
}

void RollingLines::note(kj::StringPtr text) {
  console.err(kj::str(printableText(text), "\n"));
}

void RollingLines::finding(const PreflightFinding& finding) {
  auto line = finding.line();
  for (auto& earlier : found) {
    if (earlier == line) return;
  }
  note(kj::str(finding.stops() ? "error: " : "WARNING: ", line));
  kube::Json out{{"event", "finding"}, {"stops", finding.stops()}};
  if (finding.node.size() > 0) out["node"] = finding.node.cStr();
  out["message"] = finding.text.cStr();
  if (finding.remedy.size() > 0) out["remedy"] = finding.remedy.cStr();
  event(kj::mv(out));
  found.add(kj::mv(line));
}

void RollingLines::plan(const RollingPlan& plan, const TargetImage& target, bool dryRun) {
  Table table({"NODE", "ROLE", "FROM", "TO", "ACTION"});
  for (auto& node : plan.nodes) {
    auto role = node.controlPlane ? "control plane"_kj : "worker"_kj;
    auto action = nameOf(node.action);
    table.add(node.address, role, node.from, target.version, action);
    event({{"event", "plan"},
           {"node", node.address.cStr()},
           {"role", node.controlPlane ? "controlplane" : "worker"},
           {"from", node.from.cStr()},
           {"to", target.version.cStr()},
           {"image", target.digest.cStr()},
           {"action", action.cStr()}});
  }
  if (dryRun && format == EventFormat::kText) {
    console.out(table.render());
  } else {
    console.err(table.render());
  }
}

void RollingLines::begin(const ClusterSurvey& survey) {
  names = KJ_MAP(node, survey.nodes) {
    return kj::str(node.address);
  };
  texts = kj::heapArray<kj::String>(names.size());
  lines = kj::heap<Progress>(console, names);
}

void RollingLines::progress(kj::StringPtr node, kj::StringPtr text) {
  for (auto i : kj::indices(names)) {
    if (names[i] != node || texts[i] == text) continue;
    texts[i] = kj::str(text);
    KJ_ASSERT_NONNULL(lines)->set(i, text);
    event({{"event", "progress"}, {"node", node.cStr()}, {"message", text.cStr()}});
  }
}

void RollingLines::result(kj::StringPtr node, kj::StringPtr version, kj::StringPtr result,
                          kj::StringPtr message) {
  kube::Json out{{"event", "result"}, {"node", node.cStr()}, {"result", result.cStr()}};
  if (version.size() > 0) out["version"] = version.cStr();
  if (message.size() > 0) out["message"] = message.cStr();
  event(kj::mv(out));
  results.add(Result{kj::str(node), kj::str(version), kj::str(result), kj::str(message)});
}

void RollingLines::failed(kj::StringPtr error) {
  event({{"event", "failure"}, {"message", error.cStr()}});
}

void RollingLines::end() {
  if (format != EventFormat::kText || results.empty()) return;
  Table table({"NODE", "VERSION", "RESULT", "MESSAGE"});
  for (auto& one : results) table.add(one.node, one.version, one.result, one.message);
  console.out(table.render());
}

}  // namespace talos::talosctl
