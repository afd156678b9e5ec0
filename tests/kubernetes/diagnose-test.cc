// `talosctl diagnose` on clusters of Kubernetes that are broken in one way after another: the table
// is in illnesses.cc.
//
//   DIAGNOSE=all               every illness (default: some of them)
//   DIAGNOSE='name, name'      these
#include <gmock/gmock.h>
#include <stdlib.h>

#include <chrono>

#include "common/kube/json.h"
#include "tests/kubernetes/illness.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;

constexpr double kNamed = 120, kHealed = 180;  // seconds, on a busy machine

// The first cause of an answer, and whether anything else was named.
struct FirstCause {
  std::string check, confidence, text;
};
FirstCause firstOf(const harness::Result& answer) {
  FirstCause first;
  if (answer.out.empty()) return first;
  auto json = kube::readJson(kj::arrayPtr(answer.out.data(), answer.out.size()), "the diagnosis");
  auto causes = kube::itemsAt(json, {"causes"});
  if (causes.size() == 0) return first;
  first.check = kube::textAt(*causes[0], {"check"}).cStr();
  first.confidence = kube::textAt(*causes[0], {"confidence"}).cStr();
  first.text = kube::writeJson(*causes[0]).cStr();
  return first;
}

bool isChosen(const Illness& illness) {
  auto chosen = getenv("DIAGNOSE");
  if (chosen == nullptr || *chosen == '\0') return illness.always;
  return std::string(chosen) == "all" || contains(chosen, illness.name);
}

class Diagnose : public KubeHost {
 protected:
  void examine(const KubeCluster& cluster, const std::vector<Illness>& illnesses);

 private:
  void one(Patient& patient, const Illness& illness);
  void awaitWell(Patient& patient);
  std::string table;
};

void Diagnose::examine(const KubeCluster& cluster, const std::vector<Illness>& illnesses) {
  Patient patient(cluster);
  for (auto& illness : illnesses) {
    if (isChosen(illness)) one(patient, illness);
  }
  fprintf(stderr,
          "| made wrong | named first | | after | shown by | after | well again |\n"
          "|---|---|---|---|---|---|---|\n%s",
          table.c_str());
}

void Diagnose::awaitWell(Patient& patient) {
  harness::Result last;
  bool well = eventually(
      [&] {
        last = patient.diagnose();
        return last.status == 0;
      },
      kHealed, 1);
  EXPECT_TRUE(well) << last.out << last.err << patient.cluster.overview();
}

// An illness may be seen late, or not be certain; nothing else may ever be named with certainty.
void Diagnose::one(Patient& patient, const Illness& illness) {
  SCOPED_TRACE(illness.name);
  auto began = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  illness.make(patient);
  FirstCause first;
  harness::Result last;
  auto look = [&] {
    last = patient.diagnose(illness.flags);
    first = firstOf(last);
    bool right = first.check == illness.check && contains(first.text, illness.words);
    bool wrong = !first.check.empty() && first.check != illness.check;
    EXPECT_FALSE(wrong && first.confidence == "certain") << "wrong, and certain: " << first.text;
    return right;
  };
  EXPECT_TRUE(eventually(look, kNamed, 1)) << last.out << last.err;
  double named = seconds();
  harness::Result shown;
  auto words = illness.shownBy;
  bool kubectl = !words.empty() && words[0] == "kubectl";
  if (kubectl) words.erase(words.begin());
  auto shows = [&] {
    shown = kubectl ? patient.cluster.kubectl(words) : patient.cluster.talos.talosctl(words);
    return contains(shown.out + shown.err, illness.shown);
  };
  EXPECT_TRUE(words.empty() || eventually(shows, kNamed, 1)) << illness.shown << "\n"
                                                             << shown.out << shown.err;
  double seen = seconds();
  // The consequences exist by now, and do not hide the cause.
  EXPECT_TRUE(look()) << last.out << last.err;
  auto confidence = first.confidence;
  if (illness.undo != nullptr) illness.undo(patient);
  patient.restore();
  awaitWell(patient);
  char row[500];
  snprintf(row, sizeof row, "| %s | %s | %s | %.0f s | %s | %.0f s | %.0f s |\n", illness.name,
           first.check.c_str(), confidence.c_str(), named,
           illness.shownBy.empty() ? "" : illness.shownBy.back().c_str(), seen, seconds());
  table += row;
  fprintf(stderr, "%s", row);
}

// Catches: a cause that is not named on a real cluster, or not first; a cause that is named with
// certainty while another is true, or none; a cause that is still named after it was mended.
TEST_F(Diagnose, NamesWhatIsBroken) {
  KubeCluster cluster("sick", 1, 1);
  cluster.awaitSystem();
  if (HasFailure()) return;
  auto well = Patient(cluster).diagnose();
  EXPECT_EQ(well.status, 0) << well.out << well.err;
  examine(cluster, illnessesOfTwo());
}

}  // namespace
}  // namespace talos
