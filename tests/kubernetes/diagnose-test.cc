// `talosctl diagnose` on clusters of Kubernetes that are broken in one way after another, and made
// well by the remedies that it prints: the table is in illnesses.cc.
//
//   DIAGNOSE=all               every illness (default: some of them, of the smaller cluster)
//   DIAGNOSE='name, name'      these
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>

#include "tests/kubernetes/illness.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;

constexpr double kNamed = 120, kHealed = 300;  // seconds, on a busy machine

class Diagnose : public KubeHost {
 protected:
  // Creates a cluster with this number of control planes, unless no illness is chosen.
  void examine(unsigned masters, const std::vector<Illness>& illnesses);

 private:
  struct Seconds {
    double named = 0, shown = 0, well = 0;
  };
  void one(Patient& patient, const Illness& illness);
  bool isNamed(Patient& patient, const Illness& illness, double within, FirstCause& first);
  void isShown(Patient& patient, const Illness& illness);
  bool isCured(Patient& patient, const Illness& illness, const std::string& remedy);
  bool isWell(Patient& patient);
  void addRow(const Illness& illness, const FirstCause& first, const char* cured,
              const Seconds& after);
  std::string table;
};

void Diagnose::examine(unsigned masters, const std::vector<Illness>& illnesses) {
  auto chosen = [](const Illness& illness) { return isChosen(illness.name, illness.always); };
  if (std::ranges::none_of(illnesses, chosen)) return;
  KubeCluster cluster("sick", masters, 1);
  cluster.awaitSystem();
  if (HasFailure()) return;
  Patient patient(cluster);
  auto well = patient.diagnose();
  EXPECT_EQ(well.status, 0) << well.out << well.err;
  for (auto& illness : illnesses) {
    if (chosen(illness)) one(patient, illness);
  }
  fprintf(stderr,
          "| made wrong | named first | | after | shown by | after | remedy | well again |\n"
          "|---|---|---|---|---|---|---|---|\n%s",
          table.c_str());
}

bool Diagnose::isWell(Patient& patient) {
  harness::Result last;
  bool well = eventually(
      [&] {
        last = patient.diagnose();
        return last.status == 0;
      },
      kHealed, 1);
  EXPECT_TRUE(well) << last.out << last.err << patient.cluster.overview();
  patient.cluster.awaitReady(patient.cluster.nodes.size(), kHealed);
  return well;
}

// An illness may be seen late, or not be certain; nothing else may ever be named with certainty.
bool Diagnose::isNamed(Patient& patient, const Illness& illness, double within, FirstCause& first) {
  harness::Result last;
  auto look = [&] {
    last = patient.diagnose(illness.flags);
    first = firstOf(last);
    bool right = first.check == illness.check && contains(first.text, illness.words);
    bool wrong = !first.check.empty() && first.check != illness.check;
    EXPECT_FALSE(wrong && first.confidence == "certain") << "wrong, and certain: " << first.text;
    return right;
  };
  bool named = eventually(look, within, 1);
  EXPECT_TRUE(named) << last.out << last.err;
  return named;
}

void Diagnose::isShown(Patient& patient, const Illness& illness) {
  harness::Result shown;
  auto words = illness.shownBy;
  bool kubectl = !words.empty() && words[0] == "kubectl";
  if (kubectl) words.erase(words.begin());
  auto shows = [&] {
    shown = kubectl ? patient.cluster.kubectl(words) : patient.client(words);
    return contains(shown.out + shown.err, illness.shown);
  };
  EXPECT_TRUE(words.empty() || eventually(shows, kNamed, 1)) << illness.shown << "\n"
                                                             << shown.out << shown.err;
}

// Types the remedy, and waits until the cluster is well without any other change.
bool Diagnose::isCured(Patient& patient, const Illness& illness, const std::string& remedy) {
  auto answers = illness.answers == nullptr ? Answers() : illness.answers(patient);
  auto line = lineOf(remedy, answers);
  SCOPED_TRACE(line);
  auto typed = patient.type(line, answers.editor);
  EXPECT_EQ(typed.status, 0) << typed.out << typed.err;
  return typed.status == 0 && isWell(patient);
}

void Diagnose::addRow(const Illness& illness, const FirstCause& first, const char* cured,
                      const Seconds& after) {
  char times[3][16];
  snprintf(times[0], sizeof times[0], "%.0f s", after.named);
  snprintf(times[1], sizeof times[1], "%.0f s", after.shown);
  snprintf(times[2], sizeof times[2], "%.0f s", after.well);
  auto row = std::string("| ") + illness.name + " | " + first.check + " | " + first.confidence +
             " | " + times[0] + " | " + textOf(illness.shownBy) + " | " + times[1] + " | " + cured +
             " | " + times[2] + " |\n";
  table += row;
  fprintf(stderr, "%s", row.c_str());
}

void Diagnose::one(Patient& patient, const Illness& illness) {
  SCOPED_TRACE(illness.name);
  auto began = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  Seconds after;
  FirstCause first;
  illness.make(patient);
  bool named = isNamed(patient, illness, kNamed, first);
  after.named = seconds();
  isShown(patient, illness);
  after.shown = seconds();
  // The consequences exist by now, and do not hide the cause.
  named = isNamed(patient, illness, 0, first) && named;
  bool cured = named && illness.cure != Cure::kUndone && isCured(patient, illness, first.remedy);
  after.well = seconds();
  if (!cured && illness.undo != nullptr) illness.undo(patient);
  patient.restore();
  isWell(patient);
  if (!cured) after.well = seconds();
  addRow(illness, first, nameOf(cured ? illness.cure : Cure::kUndone), after);
}

// Catches: a cause that is not named on a real cluster, or not first; a cause that is named with
// certainty while another is true, or none; a remedy that is not a command, or does not make the
// cluster well; a cause that is still named after it was mended.
TEST_F(Diagnose, NamesWhatIsBroken) {
  examine(1, illnessesOfTwo());
}

// Catches: the same, of members of etcd and of an API server that the others can do without.
TEST_F(Diagnose, NamesWhatIsBrokenAmongThree) {
  examine(3, illnessesOfThree());
}

}  // namespace
}  // namespace talos
