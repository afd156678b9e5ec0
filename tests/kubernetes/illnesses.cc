// The table of illnesses, by theme: those of a control plane and a worker, and those of three
// control planes and a worker. Each check of `diagnose` has a row but these, which nodes in
// containers on one host cannot have. tests/vm/diagnose-machines-test.cc has rows of those that a
// machine can have:
//
//   clock, time-sync     a container has its host's clock, and no time service
//   disk-full            /var of a container is a folder of its host's disk, not a disk
//   volume               a container has no partitions
//   link-carrier         needs a card: links of containers are pairs, and are up or gone
//   landlock             needs a kernel without Landlock
//   firewall             needs a kernel without nf_tables; rules that another program has removed
//                        are in effect again within a minute
//   metadata-service     needs such a kernel on a cloud
//
// Neither has rows of these:
//
//   upgrade              a container's host does not change the image
//   firmware             needs hardware whose driver requests a file
//   static-pod-files     a config without what the files need is refused; after a boot they are
//                        missing for a moment only
//
// talosctl/diagnose/checks-test.cc and remedies-test.cc have each of them, as observations, and
// missing-firmware-test.cc has the lines of drivers.
#include "tests/kubernetes/illnesses.h"

namespace talos {

Words services(const char* node) {
  return {"-n", node, "services"};
}

std::string pod(const std::string& image, const std::string& more, const std::string& spec) {
  return "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  "
         "terminationGracePeriodSeconds: "
         "0\n" +
         spec + "  containers:\n  - {name: web, image: '" + image + "'" + more + "}\n";
}

std::string object(std::initializer_list<const char*> keys, const std::string& value) {
  std::string text = value;
  for (auto it = keys.end(); it != keys.begin();) {
    text = "{\"" + std::string(*--it) + "\": " + text + "}";
  }
  return text;
}

std::string imageOf(const Patient& patient, const std::string& name) {
  return "registry.k8s.io/" + name + ":" + patient.release;
}

Illness typed(Illness illness) {
  illness.cure = Cure::kTyped;
  return illness;
}

Illness filledIn(Illness illness, std::function<Answers(Patient&)> answers) {
  illness.cure = Cure::kFilledIn;
  illness.answers = std::move(answers);
  return illness;
}

Illness filledIn(Illness illness, const std::string& placeholder, const std::string& value) {
  return filledIn(std::move(illness), [placeholder, value](Patient&) {
    return Answers{.placeholders = {{placeholder, value}}};
  });
}

Illness editedOn(std::function<const KubeNode&(Patient&)> node, Illness illness) {
  return filledIn(std::move(illness), [node = std::move(node)](Patient& p) {
    return Answers{.placeholders = {}, .editor = "cp " + p.originalConfig(node(p))};
  });
}

Illness editedOnMaster(Illness illness) {
  return editedOn([](Patient& p) -> const KubeNode& { return p.master; }, std::move(illness));
}

Illness editedOnWorker(Illness illness) {
  return editedOn([](Patient& p) -> const KubeNode& { return p.worker; }, std::move(illness));
}

void wrongArgument(Patient& patient, const KubeNode& node,
                   std::initializer_list<const char*> part) {
  patient.patch(node, object(part, R"({"extraArgs": {"bogus": "1"}})"));
}

void awaitShown(const Patient& patient, const KubeNode& node, std::vector<std::string> words,
                const char* shown) {
  harness::Result last;
  auto shows = [&] {
    last = patient.talosctl(node, words);
    return harness::contains(last.out, shown);
  };
  EXPECT_TRUE(harness::eventually(shows, kShown, 1)) << shown << "\n" << last.out << last.err;
}

void append(std::vector<Illness>& all, std::vector<Illness> more) {
  all.insert(all.end(), more.begin(), more.end());
}

std::vector<Illness> illnessesOfTwo() {
  std::vector<Illness> all;
  for (auto theme :
       {illnessesOfPods, illnessesOfTheSystem, illnessesOfManifests, illnessesOfClients,
        illnessesOfControlPlanes, illnessesOfKubelets, illnessesOfMachines, illnessesOfNetworks,
        illnessesOfTrust, illnessesThatLoseData}) {
    append(all, theme());
  }
  return all;
}

std::vector<Illness> illnessesOfThree() {
  std::vector<Illness> all;
  for (auto theme : {illnessesOfMembers, illnessesOfOneApiServer, illnessesThatLoseTheQuorum}) {
    append(all, theme());
  }
  return all;
}

}  // namespace talos
