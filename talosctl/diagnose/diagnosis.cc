#include "talosctl/diagnose/diagnosis.h"

#include <string.h>

#include "common/base/date.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {

// --- what checks write

Finding& Report::add(bool certain, kj::String summary) {
  auto finding = kj::heap<Finding>();
  finding->check = current;
  finding->certain = certain;
  finding->summary = kj::mv(summary);
  return *findings.add(kj::mv(finding));
}

Finding& Report::certain(kj::String summary) {
  return add(true, kj::mv(summary));
}

Finding& Report::likely(kj::String summary) {
  return add(false, kj::mv(summary));
}

Finding& Report::certain(SeenNode node, kj::String summary) {
  auto& finding = add(true, kj::mv(summary));
  finding.nodes.add(kj::str(node.getAddress()));
  return finding;
}

Finding& Report::likely(SeenNode node, kj::String summary) {
  auto& finding = certain(node, kj::mv(summary));
  finding.certain = false;
  return finding;
}

Finding& Finding::shows(kj::StringPtr source, kj::StringPtr text, uint64_t time) {
  if (text.size() > 0) evidence.add(Evidence{kj::str(source), kj::str(text), time});
  return *this;
}

Finding& Finding::shows(SeenNode node, kj::StringPtr what, kj::StringPtr text, uint64_t time) {
  return shows(kj::str("talosctl -n ", node.getAddress(), " ", what), text, time);
}

Finding& Finding::mend(kj::String wanted) {
  command = kj::mv(wanted);
  return *this;
}

Finding& Finding::mend(SeenNode node, kj::StringPtr what) {
  return mend(kj::str("talosctl -n ", node.getAddress(), " ", what));
}

namespace {

// --- the order of causes

bool sameNode(const Finding& one, const Finding& other) {
  if (one.nodes.empty() && other.nodes.empty()) return true;
  for (auto& node : one.nodes) {
    for (auto& there : other.nodes) {
      if (node == there) return true;
    }
  }
  return false;
}

// A cause of the whole cluster explains a finding of each node.
bool explains(const Finding& cause, const Finding& finding) {
  for (auto name : finding.check->because) {
    bool anywhere = name.startsWith("*");
    if (anywhere) name = name.slice(1);
    if (name != cause.check->name) continue;
    if (anywhere || cause.nodes.empty() || sameNode(cause, finding)) return true;
  }
  return false;
}

void linkCauses(kj::ArrayPtr<kj::Own<Finding>> findings) {
  for (size_t i = 0; i < findings.size(); ++i) {
    for (size_t j = i; j-- > 0;) {
      if (!explains(*findings[j], *findings[i])) continue;
      findings[i]->cause = j;
      break;
    }
  }
}

// "-n 10.5.0.2 " of a command becomes "-n 10.5.0.2,10.5.0.3 ".
kj::String commandFor(kj::StringPtr command, kj::StringPtr before, kj::StringPtr after) {
  auto words = kj::str("-n ", before, " ");
  auto at = strstr(command.cStr(), words.cStr());
  if (at == nullptr) return kj::str(command);
  return kj::str(kj::heapString(command.cStr(), at - command.cStr()), "-n ", after, " ",
                 at + words.size());
}

// What is said of several nodes with the same cause is said once.
void mergeEqual(kj::Vector<kj::Own<Finding>>& findings) {
  kj::Vector<kj::Own<Finding>> kept;
  kj::Vector<size_t> place;  // of each finding, in `kept`
  for (auto& finding : findings) {
    KJ_IF_MAYBE (cause, finding->cause) finding->cause = place[*cause];
    kj::Maybe<size_t> equal;
    for (auto i : kj::indices(kept)) {
      auto& other = *kept[i];
      if (other.check == finding->check && other.summary == finding->summary &&
          other.cause == finding->cause && other.nodes.size() > 0 && finding->nodes.size() == 1) {
        equal = i;
      }
    }
    KJ_IF_MAYBE (i, equal) {
      auto& other = *kept[*i];
      auto before = kj::strArray(other.nodes, ",");
      other.nodes.add(kj::mv(finding->nodes[0]));
      other.command = commandFor(other.command, before, kj::strArray(other.nodes, ","));
      for (auto& evidence : finding->evidence) other.evidence.add(kj::mv(evidence));
      other.certain = other.certain && finding->certain;
      place.add(*i);
    } else {
      place.add(kept.size());
      kept.add(kj::mv(finding));
    }
  }
  findings = kj::mv(kept);
}

class DiagnosisWriter {
 public:
  explicit DiagnosisWriter(kj::ArrayPtr<const kj::Own<Finding>> findings) : findings(findings) {}

  void causes(rpc::Diagnosis::Builder out) {
    auto roots = childrenOf(nullptr);
    auto list = out.initCauses(roots.size());
    for (auto i : kj::indices(roots)) write(roots[i], list[i]);
  }

 private:
  kj::ArrayPtr<const kj::Own<Finding>> findings;

  kj::Vector<size_t> childrenOf(kj::Maybe<size_t> cause) {
    kj::Vector<size_t> result;
    for (auto i : kj::indices(findings)) {
      if (findings[i]->cause == cause) result.add(i);
    }
    return result;
  }

  void write(size_t index, rpc::Diagnosis::Finding::Builder out) {
    auto& finding = *findings[index];
    out.setCheck(finding.check->name);
    out.setLayer(finding.check->layer);
    auto nodes = out.initNodes(finding.nodes.size());
    for (auto i : kj::indices(nodes)) nodes.set(i, finding.nodes[i]);
    out.setConfidence(finding.cause != nullptr ? "consequence"
                      : finding.certain        ? "certain"
                                               : "likely");
    out.setSummary(finding.summary);
    out.setCommand(finding.command);
    auto evidence = out.initEvidence(finding.evidence.size());
    for (auto i : kj::indices(evidence)) {
      evidence[i].setSource(finding.evidence[i].source);
      evidence[i].setText(finding.evidence[i].text);
      if (finding.evidence[i].time > 0) evidence[i].setTime(rfc3339(finding.evidence[i].time));
    }
    auto children = childrenOf(index);
    auto list = out.initConsequences(children.size());
    for (auto i : kj::indices(children)) write(children[i], list[i]);
  }
};

// --- what could not be looked at

struct Gap {
  kj::StringPtr check, node;
  kj::String reason;
};

bool needs(const Check& check, Question question) {
  for (auto needed : check.needs) {
    if (needed == question) return true;
  }
  return false;
}

// Of a node that does not answer a finding tells already; of all others the questions are named.
kj::Vector<Gap> gapsOf(Seen seen, const Check& check) {
  kj::Vector<Gap> gaps;
  if (check.needs.size() == 0) return gaps;
  for (auto node : seen.getNodes()) {
    auto reach = node.getReach();
    if (reach == Reach::ANSWERS) {
      for (auto one : node.getUnanswered()) {
        if (!needs(check, one.getQuestion())) continue;
        gaps.add(Gap{check.name, node.getAddress(), kj::str(one.getWhy())});
        break;
      }
    } else if (reach == Reach::UNVERIFIED) {
      bool told = check.needs.size() == 1 && needs(check, Question::SERVICES);
      if (!told) {
        gaps.add(Gap{check.name, node.getAddress(), kj::str("it has no certificate yet")});
      }
    } else {
      auto why = reach == Reach::MAINTENANCE ? "it has no config"_kj : "it does not answer"_kj;
      gaps.add(Gap{check.name, node.getAddress(), kj::str(why)});
    }
  }
  if (needs(check, Question::SURVEY) && !seen.hasSurvey()) {
    gaps.add(Gap{check.name, "", kj::str(seen.getSurveyProblem())});
  }
  return gaps;
}

}  // namespace

void diagnose(Seen seen, kj::ArrayPtr<const Check> checks, rpc::Diagnosis::Builder out) {
  Report report;
  kj::Vector<Gap> gaps;
  for (auto& check : checks) {
    report.begin(check);
    check.run(seen, report);
    for (auto& gap : gapsOf(seen, check)) gaps.add(kj::mv(gap));
  }
  linkCauses(report.findings);
  mergeEqual(report.findings);
  DiagnosisWriter(report.findings).causes(out);
  out.setChecks(static_cast<uint32_t>(checks.size()));
  auto nodes = out.initNodes(seen.getNodes().size());
  for (auto i : kj::indices(nodes)) nodes.set(i, seen.getNodes()[i].getAddress());
  auto notMade = out.initNotMade(gaps.size());
  for (auto i : kj::indices(gaps)) {
    notMade[i].setCheck(gaps[i].check);
    notMade[i].setNode(gaps[i].node);
    notMade[i].setReason(gaps[i].reason);
  }
}

namespace {

// --- for people

kj::String placeOf(rpc::Diagnosis::Finding::Reader finding) {
  auto nodes = finding.getNodes();
  return nodes.size() == 0 ? kj::str() : kj::str(kj::strArray(nodes, ", "), ": ");
}

// Evidence is lines of nodes: one each, and not longer than people read.
kj::String shortened(kj::StringPtr text) {
  constexpr size_t kMost = 400;
  auto one = kj::str(text.slice(0, kj::min(text.size(), kMost)), text.size() > kMost ? "…" : "");
  for (char& c : one) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return printableText(one);
}

class TextWriter {
 public:
  kj::Vector<kj::String> lines;

  void cause(size_t number, rpc::Diagnosis::Finding::Reader finding) {
    lines.add(kj::str(number, ". ", placeOf(finding), shortened(finding.getSummary()), " [",
                      finding.getLayer(), ", ", finding.getConfidence(), "]\n"));
    details(finding, "   ");
    if (finding.getCommand().size() > 0) {
      lines.add(kj::str("   mend:     ", finding.getCommand(), "\n"));
    }
    consequences(finding, "   ");
  }

 private:
  void details(rpc::Diagnosis::Finding::Reader finding, kj::StringPtr indent) {
    for (auto evidence : finding.getEvidence()) {
      auto when = evidence.getTime().size() > 0 ? kj::str(" at ", evidence.getTime()) : kj::str();
      lines.add(kj::str(indent, "evidence: ", evidence.getSource(), when, "\n", indent,
                        "          ", shortened(evidence.getText()), "\n"));
    }
  }
  void consequences(rpc::Diagnosis::Finding::Reader finding, kj::StringPtr indent) {
    for (auto one : finding.getConsequences()) {
      lines.add(kj::str(indent, "so:       ", placeOf(one), shortened(one.getSummary()), "\n"));
      consequences(one, kj::str(indent, "  "));
    }
  }
};

constexpr size_t kMostNamed = 12;  // checks in a line; of a node that is down it is all of them

// One line for each node and reason.
void gapLines(rpc::Diagnosis::Reader diagnosis, kj::Vector<kj::String>& lines) {
  auto all = diagnosis.getNotMade();
  for (auto i : kj::indices(all)) {
    auto same = [&](size_t other) {
      return all[i].getNode() == all[other].getNode() &&
             all[i].getReason() == all[other].getReason();
    };
    bool first = true;
    for (size_t j = 0; j < i; ++j) first = first && !same(j);
    if (!first) continue;
    kj::Vector<kj::StringPtr> names;
    for (size_t j = i; j < all.size(); ++j) {
      if (same(j)) names.add(all[j].getCheck());
    }
    auto where = all[i].getNode().size() > 0 ? kj::str(" on ", all[i].getNode()) : kj::str();
    auto what =
        names.size() > kMostNamed ? kj::str(names.size(), " checks") : kj::strArray(names, ", ");
    lines.add(
        kj::str("not checked", where, ": ", what, " (", shortened(all[i].getReason()), ")\n"));
  }
}

}  // namespace

kj::String diagnosisText(rpc::Diagnosis::Reader diagnosis) {
  TextWriter writer;
  size_t number = 0;
  for (auto cause : diagnosis.getCauses()) writer.cause(++number, cause);
  gapLines(diagnosis, writer.lines);
  auto nodes = diagnosis.getNodes().size();
  auto looked =
      kj::str(diagnosis.getChecks(), " checks of ", nodes, nodes == 1 ? " node" : " nodes");
  if (number > 0) {
    writer.lines.add(
        kj::str(number, number == 1 ? " cause" : " causes", " found by ", looked, "\n"));
  } else if (diagnosis.getNotMade().size() > 0) {
    writer.lines.add(kj::str("nothing wrong found by ", looked, ", of which some were not made\n"));
  } else {
    writer.lines.add(kj::str("nothing wrong found by ", looked, "\n"));
  }
  return kj::strArray(writer.lines, "");
}

}  // namespace talos::talosctl
