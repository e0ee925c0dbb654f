/*!40101 SET NAMES binary*/;
INSERT INTO `item` VALUES(1,"a")
,(2,"b");
