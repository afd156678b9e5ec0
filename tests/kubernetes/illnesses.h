// Parts that rows of the table of illnesses have in common, and the themes of the table.
#pragma once

#include <initializer_list>

#include "tests/kubernetes/illness.h"

namespace talos {

inline constexpr const char* kMaster = "10.5.0.2";
inline constexpr const char* kWorker = "10.5.0.3";

using Words = std::vector<std::string>;

inline const Words kHealth = {"-n", kMaster, "health", "--wait-timeout=1s"};
inline const Words kManifests = {"-n", kMaster, "get", "manifeststatus"};
inline const Words kPods = {"kubectl", "get", "pods", "-A"};

Words services(const char* node);

// Returns a pod of a user; `more` are fields of its container, `spec` lines of its spec.
std::string pod(const std::string& image, const std::string& more, const std::string& spec = "");

// Returns a JSON object: the value below these keys.
std::string object(std::initializer_list<const char*> keys, const std::string& value);

// Returns the image of a part of Kubernetes that every cluster of this release runs.
std::string imageOf(const Patient& patient, const std::string& name);

// Return the illness, whose remedy the test types: as it is printed; with a value for its only
// placeholder; or an `edit`, in which the operator brings the config of before back.
Illness typed(Illness illness);
Illness filledIn(Illness illness, std::function<Answers(Patient&)> answers);
Illness filledIn(Illness illness, const std::string& placeholder, const std::string& value);
Illness editedOnMaster(Illness illness);
Illness editedOnWorker(Illness illness);
Illness editedOn(std::function<const KubeNode&(Patient&)> node, Illness illness);

// Sets an unknown argument of a part of Kubernetes, or of etcd: {"cluster", "etcd"}.
void wrongArgument(Patient& patient, const KubeNode& node, std::initializer_list<const char*> part);
constexpr double kShown = 120;  // seconds until a node reports a change
// Waits until the output of talosctl on the node has this text.
void awaitShown(const Patient& patient, const KubeNode& node, std::vector<std::string> words,
                const char* shown);

// Appends a theme to the table.
void append(std::vector<Illness>& all, std::vector<Illness> more);

// --- the themes
std::vector<Illness> illnessesOfPods();
std::vector<Illness> illnessesOfTheSystem();
std::vector<Illness> illnessesOfManifests();
std::vector<Illness> illnessesOfClients();
std::vector<Illness> illnessesOfMachines();
std::vector<Illness> illnessesOfNetworks();
std::vector<Illness> illnessesOfTrust();
std::vector<Illness> illnessesOfKubelets();
std::vector<Illness> illnessesOfControlPlanes();
std::vector<Illness> illnessesThatLoseData();
// of three control planes
std::vector<Illness> illnessesOfMembers();
std::vector<Illness> illnessesOfOneApiServer();
std::vector<Illness> illnessesThatLoseTheQuorum();

}  // namespace talos
