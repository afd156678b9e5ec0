// The page with etcd, Kubernetes, upgrades under way, and the causes that diagnose finds
#include "common/text/size.h"
#include "talosctl/cli/table.h"
#include "talosctl/dashboard/pages.h"

namespace talos::talosctl::dashboard {

namespace {

// Sections, one below the other, on a canvas that is tall enough.
class Sections {
 public:
  Sections(size_t columns, kj::StringPtr filter) : canvas(kMost, columns), filter(filter) {}

  void title(kj::StringPtr text) {
    if (row > 0) ++row;
    Area(canvas).title(row++, text);
  }
  void line(kj::StringPtr text, Look look = Look::kPlain, size_t indent = 0) {
    if (!containsIgnoringCase(text, filter)) return;
    Area(canvas).put(row, indent, text, look);
    if (row + 1 < kMost) ++row;
  }
  void sheet(Sheet table) {
    table.keep(filter);
    auto rows = kj::min(table.size() + 1, kMost - row);
    table.draw(Area(canvas).part(row, 0, rows, canvas.columns()), nullptr);
    row = kj::min(row + rows, kMost - 1);
  }
  Canvas finish() {
    Canvas result(kj::max(row, size_t(1)), canvas.columns());
    result.place(canvas, 0, row, 0, 0);
    return result;
  }

 private:
  static constexpr size_t kMost = 1000;
  Canvas canvas;
  kj::StringPtr filter;
  size_t row = 0;
};

void addMembers(Sections& sections, ShownCluster cluster) {
  sections.title("etcd");
  if (cluster.getMembersProblem().size() > 0) {
    sections.line(cluster.getMembersProblem(), Look::kBad);
    return;
  }
  if (!cluster.getQuorum()) sections.line("no quorum: nothing can be written", Look::kBad);
  Sheet sheet({{"MEMBER"},
               {"ROLE"},
               {"APPLIED", 1, 14, true},
               {"BEHIND", 1, 8, true},
               {"SIZE", 1, 10, true},
               {"VERSION", 2},
               {"ALARMS", 2},
               {"PEER URLS", 3, 50},
               {"PROBLEM", 0, 60}});
  for (auto member : cluster.getMembers()) {
    auto applied = kj::String(), behind = kj::String(), alarms = kj::String();
    for (auto node : cluster.getNodes()) {
      if (node.getEtcdMember().getId() != member.getId() || member.getId() == 0) continue;
      applied = kj::str(node.getEtcdMember().getRaftAppliedIndex());
      behind = kj::str(etcdLag(cluster, node).orDefault(0));
      alarms = kj::strArray(node.getEtcd().getAlarms(), " ");
    }
    auto role = member.getLeader()    ? SheetCell{kj::str("leader"), Look::kGood}
                : member.getLearner() ? SheetCell{kj::str("learner"), Look::kWarning}
                                      : SheetCell{kj::str("member")};
    sheet.add(kj::str(member.getName().size() > 0 ? member.getName() : "(has not started yet)"_kj),
              kj::mv(role), kj::mv(applied), kj::mv(behind), decimalSize(member.getDbSize()),
              kj::str(member.getVersion()), SheetCell{kj::mv(alarms), Look::kBad},
              kj::strArray(member.getPeerUrls(), " "),
              SheetCell{kj::str(member.getProblem()), Look::kBad});
  }
  sections.sheet(kj::mv(sheet));
}

void addKubernetes(Sections& sections, ShownCluster cluster) {
  auto survey = cluster.getSurvey();
  sections.title(survey.getVersion().size() > 0 ? kj::str("Kubernetes ", survey.getVersion())
                                                : kj::str("Kubernetes"));
  if (cluster.getSurveyProblem().size() > 0) {
    sections.line(cluster.getSurveyProblem(), Look::kBad);
    return;
  }
  if (!cluster.hasSurvey()) {
    sections.line("not asked yet", Look::kDim);
    return;
  }
  Sheet nodes({{"NODE"},
               {"READY"},
               {"ROLE", 1},
               {"KUBELET", 1},
               {"PODS' NETWORKS", 3},
               {"MESSAGE", 0, 60}});
  for (auto node : survey.getNodes()) {
    auto ready = node.getReady()
                     ? SheetCell{kj::str("yes"), Look::kGood}
                     : SheetCell{kj::str(node.getReason().size() > 0 ? node.getReason() : "no"_kj),
                                 Look::kBad};
    kj::Vector<kj::StringPtr> notes;
    if (node.getUnschedulable()) notes.add("cordoned"_kj);
    for (auto pressure : node.getPressures()) notes.add(pressure);
    if (!node.getReady() && node.getMessage().size() > 0) notes.add(node.getMessage());
    nodes.add(kj::str(node.getName()), kj::mv(ready),
              node.getControlPlane() ? "control plane"_kj : "worker"_kj,
              kj::str(node.getKubeletVersion()), kj::strArray(node.getPodCidrs(), " "),
              kj::strArray(notes, "; "));
  }
  sections.sheet(kj::mv(nodes));
  Sheet pods({{"POD"}, {"NODE"}, {"STATE"}, {"RESTARTS", 1, 9, true}, {"MESSAGE", 2, 60}});
  for (auto pod : survey.getPods()) {
    if (pod.getReady() && pod.getComponent().size() == 0) continue;
    auto state =
        pod.getReady()
            ? SheetCell{kj::str("ready"), Look::kGood}
            : SheetCell{kj::str(pod.getReason().size() > 0 ? pod.getReason() : pod.getPhase()),
                        Look::kBad};
    pods.add(kj::str(pod.getNamespace(), "/", pod.getName()), kj::str(pod.getNode()), kj::mv(state),
             kj::str(pod.getRestarts()), kj::str(pod.getMessage()));
  }
  if (pods.size() == 0) return;
  sections.title("Static pods, and pods that are not ready");
  sections.sheet(kj::mv(pods));
}

void addUpgrades(Sections& sections, ShownCluster cluster) {
  bool titled = false;
  for (auto node : cluster.getNodes()) {
    auto upgrade = upgradeOf(node);
    if (upgrade.text.size() == 0) continue;
    if (!titled) sections.title("Upgrades");
    titled = true;
    sections.line(kj::str(nameOf(node), ": ", upgrade.text), upgrade.look);
  }
}

void addCauses(Sections& sections, ShownCluster cluster) {
  sections.title("Causes of what is wrong");
  if (!cluster.hasDiagnosis()) {
    sections.line("not asked yet", Look::kDim);
    return;
  }
  auto causes = cluster.getDiagnosis().getCauses();
  if (causes.size() == 0) sections.line("none found", Look::kGood);
  for (auto cause : causes) {
    auto nodes = cause.getNodes().size() > 0 ? kj::str(kj::strArray(cause.getNodes(), ", "), ": ")
                                             : kj::String();
    sections.line(kj::str(nodes, cause.getSummary(), " (", cause.getConfidence(), ")"), Look::kBad);
    if (cause.getEvidence().size() > 0)
      sections.line(cause.getEvidence()[0].getText(), Look::kPlain, 2);
    if (cause.getCommand().size() > 0) {
      sections.line(kj::str("remedy: ", cause.getCommand()), Look::kAccent, 2);
    }
  }
}

}  // namespace

Canvas clusterLines(ShownCluster cluster, size_t columns, kj::StringPtr filter) {
  Sections sections(columns, filter);
  addCauses(sections, cluster);
  addMembers(sections, cluster);
  addUpgrades(sections, cluster);
  addKubernetes(sections, cluster);
  return sections.finish();
}

Extent drawCluster(Area area, const Frame& frame) {
  auto lines = clusterLines(frame.shown.cluster, area.columns(), frame.view.filter);
  // The selected line is the top line, because there is nothing to choose.
  auto last = lines.rows() > area.rows() ? lines.rows() - area.rows() : 0;
  auto first = kj::min(frame.view.line.orDefault(0), last);
  area.place(lines, first);
  return {.nodes = frame.shown.cluster.getNodes().size(),
          .lines = last + 1,
          .visible = area.rows(),
          .service = {}};
}

}  // namespace talos::talosctl::dashboard
