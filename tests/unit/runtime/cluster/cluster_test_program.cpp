// The agents and workers of the tests of processes.
#include <cstdio>

#include "runtime/cluster/head.hpp"

int main(int argc, char** argv) {
  memopd::run_as_child(argc, argv);
  std::fprintf(stderr, "usage: cluster_test_program is started by tests\n");
  return 2;
}
