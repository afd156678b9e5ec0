// All programs of a node in one file: it is the one under whose name it was started.
#include <stdio.h>
#include <string.h>

int machinedMain();
int apidMain();
int trustdMain();
int networkdMain();
int confineMain(int argc, char** argv);
int modprobeMain(int argc, char** argv);

int main(int argc, char** argv) {
  const char* path = argc > 0 ? argv[0] : "";
  const char* slash = strrchr(path, '/');
  const char* name = slash == nullptr ? path : slash + 1;
  if (strcmp(name, "machined") == 0) return machinedMain();
  if (strcmp(name, "apid") == 0) return apidMain();
  if (strcmp(name, "trustd") == 0) return trustdMain();
  if (strcmp(name, "networkd") == 0) return networkdMain();
  if (strcmp(name, "confine") == 0) return confineMain(argc, argv);
  if (strcmp(name, "modprobe") == 0) return modprobeMain(argc, argv);
  fprintf(stderr, "no program of this node is called \"%s\"\n", name);
  return 127;
}
