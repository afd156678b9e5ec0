#include "talosctl/diagnose/diagnosis.h"

#include <string.h>

#include <algorithm>

#include "common/base/fill-list.h"
#include "common/base/lines.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

// --- the order of causes

bool sameNode(const Finding& one, const Finding& other) {
  if (one.nodes.empty() && other.nodes.empty()) return true;
  for (auto& node : one.nodes) {
    for (auto& another : other.nodes) {
      if (node == another) return true;
    }
  }
  return false;
}

// Returns true if a cause explains a finding; a cause of the whole cluster explains findings of
// each node.
bool explains(const Finding& cause, const Finding& finding) {
  if (finding.ownCause) return false;
  for (auto name : finding.unrelated) {
    if (name == cause.check.name) return false;
  }
  auto isBecauseOf = [&](kj::StringPtr name) {
    bool anywhere = name.startsWith("*");
    if (anywhere) name = name.slice(1);
    if (name != cause.check.name) return false;
    return anywhere || cause.nodes.empty() || sameNode(cause, finding);
  };
  return std::ranges::any_of(finding.check.because, isBecauseOf) ||
         std::any_of(finding.moreCauses.begin(), finding.moreCauses.end(), isBecauseOf);
}

void linkFindings(kj::ArrayPtr<kj::Own<Finding>> findings) {
  for (size_t i = 0; i < findings.size(); ++i) {
    for (size_t j = i; j-- > 0;) {
      if (!explains(*findings[j], *findings[i])) continue;
      findings[i]->parent = j;
      break;
    }
  }
}

// Merges findings of several nodes with the same cause.
void mergeEqual(kj::Vector<kj::Own<Finding>>& findings) {
  kj::Vector<kj::Own<Finding>> kept;
  kj::Vector<size_t> places;  // index in `kept` of each finding
  for (auto& finding : findings) {
    KJ_IF_MAYBE (parent, finding->parent) finding->parent = places[*parent];
    kj::Maybe<size_t> equal;
    for (auto i : kj::indices(kept)) {
      if (kept[i]->isSameAs(*finding)) equal = i;
    }
    KJ_IF_MAYBE (i, equal) {
      kept[*i]->absorb(*finding);
      places.add(*i);
    } else {
      places.add(kept.size());
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

  kj::Vector<size_t> childrenOf(kj::Maybe<size_t> parent) {
    kj::Vector<size_t> result;
    for (auto i : kj::indices(findings)) {
      if (findings[i]->parent == parent) result.add(i);
    }
    return result;
  }

  void write(size_t index, rpc::Diagnosis::Finding::Builder out) {
    auto& finding = *findings[index];
    out.setCheck(finding.check.name);
    out.setLayer(finding.check.layer);
    fillTexts(out.initNodes(finding.nodes.size()), finding.nodes);
    out.setConfidence(finding.parent != nullptr ? "consequence"
                      : finding.certain         ? "certain"
                                                : "likely");
    out.setSummary(finding.cause);
    out.setCommand(finding.remedy());
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

// --- gaps: checks that were not made in full

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

// Returns why a check could not run in full on a node; empty if it did.
kj::String gapOn(ObservedNode node, const Check& check) {
  switch (node.getReach()) {
    case Reach::ANSWERS:
      for (auto one : node.getUnanswered()) {
        if (needs(check, one.getQuestion())) return kj::str(one.getError());
      }
      return kj::String();
    case Reach::UNVERIFIED: {
      bool servicesOnly = check.needs.size() == 1 && needs(check, Question::SERVICES);
      return servicesOnly ? kj::String() : kj::str("it has no certificate yet");
    }
    case Reach::MAINTENANCE:
      return kj::str("it has no config");
    default:
      return kj::str("it does not answer");
  }
}

void addGaps(ObservedCluster cluster, const Check& check, kj::Vector<Gap>& gaps) {
  if (check.needs.size() == 0) return;
  for (auto node : cluster.getNodes()) {
    auto reason = gapOn(node, check);
    if (reason.size() > 0) gaps.add(Gap{check.name, node.getAddress(), kj::mv(reason)});
  }
  if (needs(check, Question::SURVEY) && !cluster.hasSurvey()) {
    gaps.add(Gap{check.name, "", kj::str(cluster.getSurveyProblem())});
  }
}

}  // namespace

void diagnose(ObservedCluster cluster, rpc::Diagnosis::Builder out) {
  Findings findings;
  for (auto evaluate : {checkMachines, checkNetworks, checkTrust, checkRuntimes, checkEtcd,
                        checkControlPlane, checkKubernetes}) {
    evaluate(cluster, findings);
  }
  auto found = findings.finish();
  linkFindings(found);
  mergeEqual(found);
  DiagnosisWriter(found).causes(out);
  kj::Vector<Gap> gaps;
  for (auto& check : allChecks()) addGaps(cluster, check, gaps);
  out.setChecks(static_cast<uint32_t>(allChecks().size()));
  auto nodes = out.initNodes(cluster.getNodes().size());
  for (auto i : kj::indices(nodes)) nodes.set(i, cluster.getNodes()[i].getAddress());
  auto notMade = out.initNotMade(gaps.size());
  for (auto i : kj::indices(gaps)) {
    notMade[i].setCheck(gaps[i].check);
    notMade[i].setNode(gaps[i].node);
    notMade[i].setReason(gaps[i].reason);
  }
}

namespace {

// --- text

kj::String placeOf(rpc::Diagnosis::Finding::Reader finding) {
  auto nodes = finding.getNodes();
  return nodes.size() == 0 ? kj::str() : kj::str(kj::strArray(nodes, ", "), ": ");
}

// Returns a line of a node on a single line, cut to a readable length.
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
      lines.add(kj::str("   remedy:   ", finding.getCommand(), "\n"));
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
      lines.add(kj::str(indent, "leads to: ", placeOf(one), shortened(one.getSummary()), "\n"));
      consequences(one, kj::str(indent, "  "));
    }
  }
};

// Limit of checks in a line; a node that is down lacks all checks.
constexpr size_t kMostNamed = 12;

// Writes one line for each node and reason.
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

// Breaks a line and indents its parts a little more than the line.
kj::String broken(kj::StringPtr line, size_t columns) {
  size_t blanks = 0;
  while (blanks < line.size() && line[blanks] == ' ') ++blanks;
  auto indent = kj::str(kj::repeat(' ', kj::min(blanks + 3, columns / 2)));
  kj::Vector<kj::String> lines;
  for (auto rest = kj::str(line); rest.size() > 0;) {
    auto fits = firstCharacters(rest, columns);
    auto end = fits.size();
    if (end < rest.size()) {
      while (end > blanks + 3 && rest[end] != ' ') --end;
      if (rest[end] != ' ') {  // a word that is longer than a line
        end = fits.size();
        while (end < rest.size() && rest[end] != ' ') ++end;
      }
    }
    lines.add(kj::heapString(rest.slice(0, end)));
    while (end < rest.size() && rest[end] == ' ') ++end;
    auto left = rest.slice(end);
    rest = left.size() > 0 ? kj::str(indent, left) : kj::String();
    blanks = indent.size();
  }
  return kj::strArray(lines, "\n");
}

kj::String forTerminal(kj::StringPtr text, size_t columns) {
  kj::Vector<kj::String> lines;
  for (auto line : Lines(text)) {
    auto whole = kj::heapString(line);
    bool command = strstr(whole.cStr(), " remedy:   ") != nullptr;
    lines.add(command ? kj::mv(whole) : broken(whole, columns));
  }
  return kj::str(kj::strArray(lines, "\n"), "\n");
}

}  // namespace

kj::String diagnosisText(rpc::Diagnosis::Reader diagnosis, size_t columns) {
  TextWriter writer;
  size_t number = 0;
  for (auto cause : diagnosis.getCauses()) writer.cause(++number, cause);
  gapLines(diagnosis, writer.lines);
  auto nodes = diagnosis.getNodes().size();
  auto scope =
      kj::str(diagnosis.getChecks(), " checks of ", nodes, nodes == 1 ? " node" : " nodes");
  if (number > 0) {
    writer.lines.add(
        kj::str(number, number == 1 ? " cause" : " causes", " found by ", scope, "\n"));
  } else if (diagnosis.getNotMade().size() > 0) {
    writer.lines.add(kj::str("nothing wrong found by ", scope, ", of which some were not made\n"));
  } else {
    writer.lines.add(kj::str("nothing wrong found by ", scope, "\n"));
  }
  auto text = kj::strArray(writer.lines, "");
  return columns > 0 ? forTerminal(text, columns) : kj::mv(text);
}

}  // namespace talos::talosctl
