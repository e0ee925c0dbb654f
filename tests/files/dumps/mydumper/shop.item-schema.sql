/*!40101 SET NAMES binary*/;
/*!40014 SET FOREIGN_KEY_CHECKS=0*/;
CREATE TABLE `item` (
  `id` int NOT NULL,
  `name` varchar(20),
  PRIMARY KEY (`id`)
) ENGINE=InnoDB;
